package org.nccl4j.api;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.InfiniBandSettings;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.support.Patience;

/**
 * The configuration of a communicator. Missing values come from the system properties, the
 * environment, the configuration files, and then the defaults of the settings. Immutable; each
 * {@code with} method returns a changed copy.
 *
 * <p>Fields of NCCL's ncclConfig_t: {@code blocking} is the choice between a method and its
 * asynchronous version, such as {@link Communicator#initRankAsync}. commName, minCTAs, maxCTAs,
 * cgaClusterSize, nvlsCTAs, CTAPolicy, nChannelsPerNetPeer, netName, trafficClass, splitShare and
 * shrinkShare have methods here. The other fields have no effect: there is no CollNet
 * (collnetEnable); each send chooses its channels, whatever the number of peers (maxP2pPeers);
 * blocks are not scheduled by links (nvlinkCentricSched); one-sided operations have one context
 * (numRmaCtx); launches outside and inside graphs may always be mixed, in the order of the calls
 * (graphUsageMode, graphStreamOrdering).
 */
public final class CommunicatorConfig {
  private static final long LONGEST_MILLIS = Duration.ofDays(365).toMillis();
  private static final CommunicatorConfig DEFAULTS =
      new CommunicatorConfig("", Map.of(), null, false);

  private final String name;
  private final Boolean splitShare; // null where the settings decide
  private final boolean shrinkShare;
  private final Map<String, String> settings;

  private CommunicatorConfig(
      String name, Map<String, String> settings, Boolean splitShare, boolean shrinkShare) {
    this.name = name;
    this.splitShare = splitShare;
    this.shrinkShare = shrinkShare;
    this.settings = settings;
  }

  /** The configuration without values. */
  public static CommunicatorConfig defaults() {
    return DEFAULTS;
  }

  /**
   * A name for messages and logs. The default is derived from the unique id, so it is the same on
   * all ranks; if one thread creates all ranks, it is a number.
   */
  public CommunicatorConfig withName(String newName) {
    return new CommunicatorConfig(
        Arguments.notNull(newName, "name of the communicator"), settings, splitShare, shrinkShare);
  }

  /**
   * The longest time for the creation, all ranks together; 60 s by default, at most a year.
   *
   * @throws InvalidArgumentException for less than a millisecond
   */
  public CommunicatorConfig withInitTimeout(Duration timeout) {
    return with(
        Settings.NCCL4J_INIT_TIMEOUT.name(),
        millis("withInitTimeout", "the init timeout", timeout));
  }

  /**
   * The longest time that an operation waits for other ranks; 10 minutes by default, at most a
   * year.
   *
   * @throws InvalidArgumentException for less than a millisecond
   */
  public CommunicatorConfig withOperationTimeout(Duration timeout) {
    return with(
        Settings.NCCL4J_TIMEOUT.name(),
        millis("withOperationTimeout", "the operation timeout", timeout));
  }

  /**
   * The transports to use, best first; by default all, by priority and name. An empty list is as
   * none: NCCL4J_TRANSPORTS of the process counts, else all.
   */
  public CommunicatorConfig withTransports(List<String> names) {
    Arguments.notNull(names, "list of transports")
        .forEach(name -> Arguments.notNull(name, "transport"));
    return with(Settings.NCCL4J_TRANSPORTS.name(), String.join(",", names));
  }

  /**
   * The implementation of NVLink SHARP; {@link NvlsMode#AUTO} by default. All ranks must use the
   * same.
   */
  public CommunicatorConfig withNvlsMode(NvlsMode mode) {
    Arguments.notNull(mode, "mode of NVLS");
    return with(Settings.NCCL4J_NVLS_MODE.name(), mode.name().toLowerCase(Locale.ROOT));
  }

  /**
   * Selects whether splits with this configuration share the connections of their parent. By
   * default they do, except if a split of GPUs would otherwise have NVLS and loses it by sharing.
   *
   * <p>Communicators that share connections (all splits of one communicator, and their splits) use
   * the device memory of the first one only. In return their operations are totally ordered on each
   * GPU, as if they were operations of one communicator: they run one after the other, whatever
   * their streams, and every rank must call them in the same order across all these communicators.
   * Otherwise data are mixed up. The next operation usually detects it ({@link
   * org.nccl4j.device.OrderMismatchException}), but not over a network, or ranks wait until the
   * deadline. NCCL_CHECK_MODE=DEBUG_GLOBAL names the two calls instead. A failure or an abort of
   * one communicator is a failure or an abort of all.
   *
   * <p>Without sharing ({@code false}) a split has its own connections, tens of MiB of each GPU,
   * and works at the same time as its parent. Use it for overlapping communication, and for threads
   * that each have a communicator and call it in their own order.
   *
   * <p>On GPUs a split that shares has no NVLS. Until it has windows, it also lacks the fastest
   * algorithm for small operations, which needs memory of its own. Its puts do not reach other
   * machines. Only {@link org.nccl4j.device.cuda.CudaStream#beginCapture} captures its operations
   * and its parent's: other captures, for example with JCuda, are refused while connections are
   * shared. If a communicator was captured in another way before, its splits get their own
   * connections, and the log says so. But another library's capture of a stream of this library,
   * through {@link org.nccl4j.device.cuda.CudaStream#handle}, may not be detected before a split:
   * do not share in this case.
   */
  public CommunicatorConfig withSplitShare(boolean share) {
    return new CommunicatorConfig(name, settings, share, shrinkShare);
  }

  /**
   * Selects whether a shrink without abort shares the parent's connections, as {@link
   * #withSplitShare} does for a split. By default it does not, because the excluded ranks may still
   * use the old communicator.
   */
  public CommunicatorConfig withShrinkShare(boolean share) {
    return new CommunicatorConfig(name, settings, splitShare, share);
  }

  /**
   * The conditions under which a reduction gives the same bits; see
   * docs/concepts/reduction-order.md.
   */
  public enum Determinism {
    /** The same bits for the same data, number of ranks, size and settings, in every run. */
    RUN_TO_RUN,
    /** Also the same bits at every size: each element is combined in rank order. */
    SIZE_INVARIANT
  }

  /**
   * The conditions under which a reduction gives the same bits; {@link Determinism#RUN_TO_RUN} by
   * default.
   */
  public CommunicatorConfig withDeterminism(Determinism determinism) {
    Arguments.notNull(determinism, "determinism");
    return with(PlanSettings.NCCL4J_DETERMINISM.name(), determinism.name());
  }

  /**
   * The most blocks (CTAs) of an operation on a GPU, 1 to 64; many by default. Also limits the
   * channels of NVLS. A send and a receive of a group to the same rank together use at most this
   * number; each message uses at least one.
   */
  public CommunicatorConfig withMaxCtas(int ctas) {
    return with(Settings.NCCL_MAX_CTAS.name(), CallOptions.ctas("withMaxCtas", "most", ctas));
  }

  /**
   * The fewest blocks (CTAs) of an operation on a GPU, 1 to 64. If it is greater than the most, the
   * most counts.
   */
  public CommunicatorConfig withMinCtas(int ctas) {
    return with(Settings.NCCL_MIN_CTAS.name(), CallOptions.ctas("withMinCtas", "fewest", ctas));
  }

  /**
   * The most blocks of a cluster on GPUs with clusters, 0 to 8; by default kernels are launched
   * without clusters.
   */
  public CommunicatorConfig withCgaClusterSize(int blocks) {
    return with(GpuSettings.NCCL_CGA_CLUSTER_SIZE.name(), Integer.toString(blocks));
  }

  /** The number of blocks of NVLink SHARP, 0 to 64; with 0, the default, the device chooses. */
  public CommunicatorConfig withNvlsCtas(int ctas) {
    return with(Settings.NCCL_NVLS_NCHANNELS.name(), Integer.toString(ctas));
  }

  /** Shares of a GPU's multiprocessors that operations take. */
  public enum CtaPolicy {
    /**
     * The fastest algorithm with its best number of blocks; from 4 MiB on the fewest blocks within
     * 3 % of the least time, if they were measured for the model of GPU and the number of ranks.
     */
    DEFAULT("0"),
    /**
     * Operations of all sizes use few blocks: at most 12 between windows, where collectives start
     * only after the previous operation has ended, and 24 over connections and of NVLS. A
     * concurrent computation loses less; large operations take up to a third longer.
     */
    EFFICIENCY("1"),
    /**
     * Copy engines, without a kernel, for operations between windows that only move data, and for
     * sends and receives of 1 MiB and more of any memory; others as with {@link #DEFAULT}. The host
     * device has no copy engines.
     */
    ZERO("2"),
    /**
     * Both: data that only move by copy engines as with {@link #ZERO}, all else with few blocks as
     * with {@link #EFFICIENCY}. NCCL has its policies as bits.
     */
    EFFICIENCY_AND_ZERO("3");

    private final String setting;

    CtaPolicy(String setting) {
      this.setting = setting;
    }

    String setting() {
      return setting;
    }
  }

  /**
   * Sets how many blocks (CTAs) operations take from a program's own kernels on a GPU; {@link
   * CtaPolicy#DEFAULT} by default.
   */
  public CommunicatorConfig withCtaPolicy(CtaPolicy policy) {
    Arguments.notNull(policy, "policy of CTAs");
    return with(PlanSettings.NCCL_CTA_POLICY.name(), policy.setting());
  }

  /**
   * Channels of a GPU's connection to a peer over a network, at most 32 of which are used; with 0,
   * the default, the library chooses.
   */
  public CommunicatorConfig withChannelsPerNetPeer(int channels) {
    return with(TopologySettings.NCCL_NCHANNELS_PER_NET_PEER.name(), Integer.toString(channels));
  }

  /** The name of the network to use, such as "Socket" or "IB"; as NCCL_NET. */
  public CommunicatorConfig withNetName(String network) {
    return with(Settings.NCCL_NET.name(), network);
  }

  /** The traffic class of network packets; as NCCL_IB_TC. */
  public CommunicatorConfig withTrafficClass(int trafficClass) {
    return with(InfiniBandSettings.NCCL_IB_TC.name(), Integer.toString(trafficClass));
  }

  /**
   * Sets a setting for this communicator. It overrides system properties, environment and files.
   *
   * @param key a name such as "NCCL_ALGO"
   */
  public CommunicatorConfig with(String key, String value) {
    Map<String, String> changed = new HashMap<>(settings);
    changed.put(
        Arguments.notNull(key, "name of a setting"), Arguments.notNull(value, "value of " + key));
    return new CommunicatorConfig(name, Map.copyOf(changed), splitShare, shrinkShare);
  }

  /** The name; empty if none was given. */
  public String name() {
    return name;
  }

  /** True if splits share their parent's connections; empty if it is not set. */
  public Optional<Boolean> splitShare() {
    return Optional.ofNullable(splitShare);
  }

  /** True if shrink without abort shares connections. */
  public boolean shrinkShare() {
    return shrinkShare;
  }

  /** The settings of this communicator. */
  public Map<String, String> settings() {
    return settings;
  }

  @Override
  public String toString() {
    String share = splitShare == null ? "default" : splitShare.toString();
    return "CommunicatorConfig[name=%s, splitShare=%s, shrinkShare=%b, settings=%s]"
        .formatted(name, share, shrinkShare, Settings.shown(settings));
  }

  private static String millis(String method, String what, Duration value) {
    long millis = Patience.millis(Arguments.notNull(value, what.substring("the ".length())));
    if (millis < 1) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "%s: %s is %s".formatted(method, what, value),
          "pass a duration of a millisecond or more");
    }
    return Math.min(millis, LONGEST_MILLIS) + "ms";
  }
}
