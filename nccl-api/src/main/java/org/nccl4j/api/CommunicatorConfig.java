package org.nccl4j.api;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Patience;

/**
 * How a communicator is to be made. What is not said here is taken from the system properties, the
 * environment and the configuration files, and then from the settings' defaults. Immutable; each
 * {@code with} method gives a changed copy.
 *
 * <p>Of the fields of NCCL's ncclConfig_t: blocking is the choice between a method and its
 * asynchronous twin, such as {@link Communicator#initRankAsync}; commName, minCTAs, maxCTAs,
 * cgaClusterSize, nvlsCTAs, CTAPolicy, nChannelsPerNetPeer, maxP2pPeers, netName, trafficClass,
 * splitShare and shrinkShare have methods here. The others mean nothing here: there is no CollNet
 * (collnetEnable); blocks are not scheduled by links (nvlinkCentricSched); one-sided operations
 * have one context (numRmaCtx); launches outside and inside graphs may always be mixed, in the
 * order of the calls (graphUsageMode, graphStreamOrdering).
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

  /** Nothing is said. */
  public static CommunicatorConfig defaults() {
    return DEFAULTS;
  }

  /**
   * A name for messages and logs; by default one that is derived from the unique id, and so the
   * same on all ranks, or a number where one thread makes all ranks.
   */
  public CommunicatorConfig withName(String newName) {
    return new CommunicatorConfig(
        Given.notNull(newName, "name of the communicator"), settings, splitShare, shrinkShare);
  }

  /**
   * How long creation may take, all ranks together; by default 60 s, and a year at most.
   *
   * @throws InvalidArgumentException for less than a millisecond
   */
  public CommunicatorConfig withInitDeadline(Duration deadline) {
    return with(Settings.NCCL4J_INIT_TIMEOUT.name(), millis("the init deadline", deadline));
  }

  /**
   * How long an operation may wait for other ranks; by default 10 minutes, and a year at most.
   *
   * @throws InvalidArgumentException for less than a millisecond
   */
  public CommunicatorConfig withOperationDeadline(Duration deadline) {
    return with(Settings.NCCL4J_TIMEOUT.name(), millis("the operation deadline", deadline));
  }

  /** The transports that may be used, best first; by default all, by priority and name. */
  public CommunicatorConfig withTransports(List<String> names) {
    Given.notNull(names, "list of transports").forEach(name -> Given.notNull(name, "transport"));
    return with(Settings.NCCL4J_TRANSPORTS.name(), String.join(",", names));
  }

  /**
   * Who carries NVLink SHARP out; by default {@link NvlsMode#AUTO}. All ranks must say the same.
   */
  public CommunicatorConfig withNvlsMode(NvlsMode mode) {
    Given.notNull(mode, "mode of NVLS");
    return with(Settings.NCCL4J_NVLS_MODE.name(), mode.name().toLowerCase(Locale.ROOT));
  }

  /**
   * Whether what is split by this configuration uses the connections of what it is split from; by
   * default it does, except where a split of GPUs would be without NVLS that it has otherwise.
   *
   * <p>Communicators that share connections, all splits of one and splits of these, take no device
   * memory but the first's. In return their operations are one order on each GPU, as if they were
   * one communicator's: they run one after the other, in whatever streams, and every rank has to
   * call them in the same order, whatever the communicator. Else they get each other's data, which
   * the next operation of another of them finds out, as a rule and where no network carries them
   * ({@link org.nccl4j.device.OrderMismatchException}), or wait until a deadline passes;
   * NCCL_CHECK_MODE=DEBUG_GLOBAL names the two calls instead. A failure of one is a failure of all,
   * and so is the abort of one.
   *
   * <p>Without sharing ({@code false}) a split has connections of its own, tens of MiB of each GPU,
   * and can be at work while its parent is: for communication that overlaps, and for threads that
   * each have a communicator and call it in an order of their own.
   *
   * <p>On GPUs a split that shares has neither NVLS nor, while it has no windows, the fastest way
   * for small operations, which takes memory of its own; nor do its puts reach other machines. Only
   * {@link org.nccl4j.device.cuda.CudaStream#beginCapture} captures its operations and its
   * parent's: captures by other means, JCuda's say, are refused while connections are shared, and
   * where a communicator was captured so before, its splits have connections of their own, and the
   * log says so. But what others have captured of a stream that this library has made, by {@link
   * org.nccl4j.device.cuda.CudaStream#handle}, may go unnoticed before a split: do not share then.
   */
  public CommunicatorConfig withSplitShare(boolean share) {
    return new CommunicatorConfig(name, settings, share, shrinkShare);
  }

  /**
   * As {@link #withSplitShare} for shrink without abort; by default it does not share, since the
   * excluded ranks may still use the old communicator.
   */
  public CommunicatorConfig withShrinkShare(boolean share) {
    return new CommunicatorConfig(name, settings, splitShare, share);
  }

  /** On what the bits of a reduction may depend; see docs/concepts/reduction-order.md. */
  public enum Determinism {
    /** On the ranks' data, the number of ranks, the size and the settings: not on the run. */
    RUN_TO_RUN,
    /** Nor on the size: every element is combined in the order of the ranks. */
    SIZE_INVARIANT
  }

  /** On what the bits of a reduction may depend; by default {@link Determinism#RUN_TO_RUN}. */
  public CommunicatorConfig withDeterminism(Determinism determinism) {
    Given.notNull(determinism, "determinism");
    return with(PlanSettings.NCCL4J_DETERMINISM.name(), determinism.name());
  }

  /**
   * The most blocks (CTAs) that an operation may take on a GPU, at least 1; by default many. Holds
   * for the channels that NVLS is made with, too. A send and a receive of a group take so many
   * together, with each other rank; each message takes at least one.
   */
  public CommunicatorConfig withMaxCtas(int ctas) {
    return with(Settings.NCCL_MAX_CTAS.name(), CallOptions.ctas("most", ctas));
  }

  /**
   * The fewest blocks (CTAs) that an operation may take on a GPU, at least 1; where it is more than
   * the most, that counts.
   */
  public CommunicatorConfig withMinCtas(int ctas) {
    return with(Settings.NCCL_MIN_CTAS.name(), CallOptions.ctas("fewest", ctas));
  }

  /**
   * The most blocks of a cluster on GPUs that have them, 0 to 8; by default kernels are launched
   * without.
   */
  public CommunicatorConfig withCgaClusterSize(int blocks) {
    return with(GpuSettings.NCCL_CGA_CLUSTER_SIZE.name(), Integer.toString(blocks));
  }

  /** How many blocks NVLink SHARP takes, 0 to 64; 0, the default, leaves it to the device. */
  public CommunicatorConfig withNvlsCtas(int ctas) {
    return with(Settings.NCCL_NVLS_NCHANNELS.name(), Integer.toString(ctas));
  }

  /** How operations that only move data get along with a program's own kernels. */
  public enum CtaPolicy {
    /** The fastest way is taken. */
    DEFAULT("0"),
    /**
     * GPUs' copy engines do them where all buffers lie in windows, and no kernel is launched; other
     * operations are done as by default. The host device has no copy engines.
     */
    ZERO("2");

    private final String setting;

    CtaPolicy(String setting) {
      this.setting = setting;
    }

    String setting() {
      return setting;
    }
  }

  /**
   * How operations share GPUs with a program's own kernels; by default {@link CtaPolicy#DEFAULT}.
   */
  public CommunicatorConfig withCtaPolicy(CtaPolicy policy) {
    Given.notNull(policy, "policy of CTAs");
    return with(PlanSettings.NCCL_CTA_POLICY.name(), policy.setting());
  }

  /**
   * Channels of a GPU's connection with a peer over a network, of which 4 at most are used; 0, the
   * default, leaves it to the library.
   */
  public CommunicatorConfig withChannelsPerNetPeer(int channels) {
    return with("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels));
  }

  /**
   * How many peers each rank is expected to exchange data with, which says how many channels each
   * of them gets; 0, the default, for all.
   */
  public CommunicatorConfig withMaxP2pPeers(int peers) {
    return with("NCCL_P2P_MAX_PEERS", Integer.toString(peers));
  }

  /** The network to use, by its name, such as "Socket" or "IB"; as NCCL_NET. */
  public CommunicatorConfig withNetName(String network) {
    return with("NCCL_NET", network);
  }

  /** The traffic class of network packets; as NCCL_IB_TC. */
  public CommunicatorConfig withTrafficClass(int trafficClass) {
    return with("NCCL_IB_TC", Integer.toString(trafficClass));
  }

  /**
   * A setting for this communicator alone, over system properties, environment and files.
   *
   * @param key such as "NCCL_ALGO"
   */
  public CommunicatorConfig with(String key, String value) {
    Map<String, String> changed = new HashMap<>(settings);
    changed.put(Given.notNull(key, "name of a setting"), Given.notNull(value, "value of " + key));
    return new CommunicatorConfig(name, Map.copyOf(changed), splitShare, shrinkShare);
  }

  /** The name; empty if none was given. */
  public String name() {
    return name;
  }

  /** Whether splits use the connections of what they are split from; empty where it is not said. */
  public Optional<Boolean> splitShare() {
    return Optional.ofNullable(splitShare);
  }

  /** Whether shrinking without abort uses the connections of what is shrunk. */
  public boolean shrinkShare() {
    return shrinkShare;
  }

  /** The settings for this communicator alone. */
  public Map<String, String> settings() {
    return settings;
  }

  @Override
  public String toString() {
    String share = splitShare == null ? "default" : splitShare.toString();
    return "CommunicatorConfig[name=%s, splitShare=%s, shrinkShare=%b, settings=%s]"
        .formatted(name, share, shrinkShare, Settings.shown(settings));
  }

  private static String millis(String what, Duration value) {
    long millis = Patience.millis(Given.notNull(value, what.substring("the ".length())));
    if (millis < 1) {
      throw new InvalidArgumentException(
          ErrorId.SETTING, what + " is " + value, "pass a duration of a millisecond or more");
    }
    return Math.min(millis, LONGEST_MILLIS) + "ms";
  }
}
