package org.nccl4j.api.init;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.init.engine.KernelSpecs;
import org.nccl4j.api.init.engine.Profilers;
import org.nccl4j.api.init.engine.TuningSettings;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.peers.Membership;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.init.topology.TopologyExchange;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.observe.InitTimes;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.api.plan.PlannedAlgorithms;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.window.RemotePeers;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.support.Patience;

/**
 * Creates communicators from another one: of its ranks by color (split), or of the remaining ranks
 * (shrink).
 */
public final class ChildCommunicators {
  /** The color of a rank that will be in no new communicator. */
  public static final int NO_COLOR = -1;

  private final CommunicatorState parent;

  /** Creates the maker of communicators from a parent. */
  public ChildCommunicators(CommunicatorState parent) {
    this.parent = parent;
  }

  /**
   * Name, settings and sharing of a new communicator.
   *
   * @param name empty for one that says where it comes from
   * @param settings over the parent's
   * @param share whether to use the parent's connections, if all ranks can and say so; empty where
   *     the settings decide
   */
  public record How(String name, Map<String, String> settings, Optional<Boolean> share) {}

  /**
   * A rank's part of a split. As bytes: color, key and vote, of four each, and its settings.
   *
   * @param vote of its {@link SplitSharePolicy}
   * @param settings its {@link TuningSettings#text}
   */
  private record Call(int color, int key, int vote, String settings, int rank) {
    byte[] toBytes() {
      byte[] text = settings.getBytes(StandardCharsets.UTF_8);
      return ByteBuffer.allocate(12 + text.length)
          .putInt(color)
          .putInt(key)
          .putInt(vote)
          .put(text)
          .array();
    }

    static Call fromBytes(byte[] part, int rank) {
      ByteBuffer bytes = ByteBuffer.wrap(part);
      String text = new String(part, 12, part.length - 12, StandardCharsets.UTF_8);
      return new Call(bytes.getInt(), bytes.getInt(), bytes.getInt(), text, rank);
    }

    /** Throws unless another rank has the same settings. */
    void checkSettings(Call other) {
      if (!settings.equals(other.settings)) {
        TuningSettings.fromText(settings)
            .check(rank, TuningSettings.fromText(other.settings), other.rank);
      }
    }
  }

  /** The communicator of this rank's color; empty for {@link #NO_COLOR}. */
  public Optional<CommunicatorState> split(int color, int key, How how) {
    CallOrder.Turn turn = parent.calls().enter();
    try (turn) {
      return splitNow(color, key, how);
    }
  }

  private Optional<CommunicatorState> splitNow(int color, int key, How how) {
    parent.called(() -> "split(%d, %d)".formatted(color, key));
    if (color < NO_COLOR) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "communicator %s is split with color %d".formatted(parent.name(), color),
          "pass a color of 0 or more, or Communicator.NO_COLOR");
    }
    parent.checkRunning("split");
    checkUsable("split");
    boolean revoked = parent.isRevoked();
    Settings settings = checkedSettings(how);
    int number = parent.nextSplit();
    SplitSharePolicy policy = new SplitSharePolicy(parent);
    int vote = revoked ? SplitSharePolicy.OWN : policy.vote(how.share(), settings);
    String choosing = TuningSettings.of(settings, parent.device().kind()).text();
    Call mine = new Call(color, key, vote, choosing, parent.rank());
    List<byte[]> all =
        revoked
            ? gatherAfterRevocation("/split %d/colors".formatted(number), mine.toBytes())
            : parent.exchange("split", mine.toBytes());
    if (color == NO_COLOR) {
      return Optional.empty();
    }
    List<Call> calls = callsOf(color, all);
    calls.forEach(calls.get(0)::checkSettings);
    List<Integer> ranks = calls.stream().map(Call::rank).toList();
    String label = "/split %d.%d".formatted(number, color);
    HostLayout hosts = HostLayout.of(ranks.stream().map(parent.members().peers()::get).toList());
    int least = calls.stream().mapToInt(Call::vote).min().orElseThrow();
    return Optional.of(make(label, ranks, how, policy.isShared(least, hosts)));
  }

  /** All ranks' bytes; over connections of their own, since those of the parent have failed. */
  private List<byte[]> gatherAfterRevocation(String label, byte[] mine) {
    awaitOperations("close the communicator");
    return gather(label, IntStream.range(0, parent.nRanks()).boxed().toList(), mine);
  }

  private List<byte[]> gather(String label, List<Integer> ranks, byte[] mine) {
    byte[] lead = parent.members().points().get(ranks.get(0));
    String path = parent.members().path() + label;
    try (Bootstrap among = parent.bootstrap().reunite(ranks, lead, path)) {
      among.made();
      return among.allGather(mine);
    }
  }

  private List<Call> callsOf(int color, List<byte[]> all) {
    List<Call> calls = new ArrayList<>();
    for (int rank = 0; rank < all.size(); rank++) {
      calls.add(Call.fromBytes(all.get(rank), rank));
    }
    return calls.stream()
        .filter(call -> call.color == color)
        .sorted(Comparator.comparingInt(Call::key).thenComparingInt(Call::rank))
        .toList();
  }

  /**
   * The communicator without some ranks; called by all the others.
   *
   * @param abort whether operations that run are ended; else they are waited for. A revocation has
   *     ended them
   */
  public CommunicatorState shrink(Set<Integer> excluded, boolean abort, How how) {
    if (abort || parent.isRevoked()) { // earlier calls may never end
      return shrinkNow(excluded, true, how);
    }
    CallOrder.Turn turn = parent.calls().enter();
    try (turn) {
      return shrinkNow(excluded, false, how);
    }
  }

  private CommunicatorState shrinkNow(Set<Integer> excluded, boolean abort, How how) {
    parent.called(() -> "shrink(%s, %s)".formatted(excluded, abort ? "ABORT" : "WAIT"));
    parent.checkOpen("shrink");
    checkedSettings(how);
    List<Integer> ranks = new ArrayList<>();
    for (int rank = 0; rank < parent.nRanks(); rank++) {
      if (!excluded.contains(rank)) {
        ranks.add(rank);
      }
    }
    if (excluded.contains(parent.rank()) || ranks.size() + excluded.size() != parent.nRanks()) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "rank %d of %d shrinks communicator %s without ranks %s"
              .formatted(parent.rank(), parent.nRanks(), parent.name(), excluded),
          "name ranks of this communicator, and call shrink on those that stay");
    }
    String label = "/shrunk %d".formatted(parent.nextShrink());
    if (abort) {
      parent.revoke(" in shrink");
    } else {
      parent.checkRunning("shrink without abort");
      checkUsable("shrink without abort");
    }
    awaitOperations("shrink with abort, which ends them");
    return make(
        label, ranks, how, how.share().orElse(false) && !abort && canAllShare(label, ranks));
  }

  private void awaitOperations(String remedy) {
    if (!parent.awaitIdleOrInterrupt(parent.operationTimeout())) {
      throw new TimeoutException(
          ErrorId.STILL_RUNNING,
          "rank %d's operations on communicator %s have not ended within %s"
              .formatted(parent.rank(), parent.name(), Patience.text(parent.operationTimeout())),
          remedy);
    }
  }

  /**
   * True if all ranks can share. Where ranks may find different obstacles, the ranks that stay
   * exchange their answers.
   */
  private boolean canAllShare(String label, List<Integer> ranks) {
    boolean can = new SplitSharePolicy(parent).isPossible(true);
    if (parent.device().kind() == Device.Kind.HOST) {
      return can;
    }
    return gather(label + "/sharing", ranks, new byte[] {(byte) (can ? 1 : 0)}).stream()
        .allMatch(b -> b[0] == 1);
  }

  private CommunicatorState make(String label, List<Integer> ranks, How how, boolean share) {
    String name = how.name().isEmpty() ? parent.name() + label : how.name();
    String path = parent.members().path() + label;
    InitRequest request = parent.request().derived(name, how.settings());
    byte[] lead = parent.members().points().get(ranks.get(0));
    if (share) {
      Bootstrap lazy = new LazyBootstrap(parent.bootstrap(), ranks, lead, path);
      return shared(request, lazy, ranks, path);
    }
    InitTimes times = new InitTimes(name, ranks.indexOf(parent.rank()), request.job());
    times.begin(InitTimes.BOOTSTRAP);
    return Initializer.create(request, parent.bootstrap().reunite(ranks, lead, path), times);
  }

  /** On the parent's connections. */
  private CommunicatorState shared(
      InitRequest request, Bootstrap bootstrap, List<Integer> ranks, String path) {
    InitTimes times = new InitTimes(request.name(), bootstrap.rank(), request.job());
    times.begin("graphs");
    Membership members = parent.members().subset(ranks, path);
    Engine old = parent.engine();
    TopologyExchange machines = old.place().machines().of(ranks);
    ChannelGraphs graphs =
        ChannelGraphs.among(
            request, parent.request().settings(), machines, members.layout(), bootstrap.rank());
    if (!old.resources().join()) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "communicator %s is closed while it is split".formatted(parent.name()),
          "close a communicator after its last use");
    }
    CleanupStack undo = new CleanupStack();
    undo.push(() -> old.resources().leave(parent.operationTimeout(), /* idle= */ true));
    undo.push(bootstrap::close);
    return undo.made(
        request.name(),
        () -> {
          times.begin("kernels");
          KernelCommunicator kernels =
              old.kernels().share(spec(request, bootstrap.rank(), members, graphs), ranks, path);
          undo.push(kernels::close);
          Profilers profilers = Profilers.open(request, bootstrap.rank(), ranks.size());
          undo.push(profilers::close);
          Made made = new Made(request, bootstrap, members, machines, graphs, profilers);
          Engine engine = engine(made, kernels, ranks);
          times.done(request.logLevel("INIT"));
          return new CommunicatorState(request, bootstrap, members, engine);
        },
        cause -> {});
  }

  private KernelCommunicatorSpec spec(
      InitRequest request, int rank, Membership members, ChannelGraphs graphs) {
    Engine old = parent.engine();
    List<Connection> none = Collections.nCopies(members.peers().size(), null);
    return KernelSpecs.of(
        request,
        rank,
        members,
        old.place().layout(),
        graphs,
        old.place().facts(),
        new KernelSpecs.Ends(none, none, old.resources().progress(), null, PeerConnector.NONE));
  }

  /** Resources that a new communicator on the parent's connections has for itself. */
  private record Made(
      InitRequest request,
      Bootstrap bootstrap,
      Membership members,
      TopologyExchange machines,
      ChannelGraphs graphs,
      Profilers profilers) {}

  private Engine engine(Made made, KernelCommunicator kernels, List<Integer> ranks) {
    Engine old = parent.engine();
    int rank = made.bootstrap.rank();
    Map<Integer, TransportRoutes.Route> routes = new TreeMap<>();
    for (int peer = 0; peer < ranks.size(); peer++) {
      if (peer != rank) {
        routes.put(peer, old.routes().get(ranks.get(peer)));
      }
    }
    return Engine.of(
        new Engine.Place(
            made.request,
            made.members.id(),
            rank,
            old.place()
                .facts()
                .of(
                    HostLayout.of(made.members.peers()).ranks(),
                    made.graphs.topology(),
                    made.members.fewestCores()),
            old.place().layout(),
            Engine.windows(
                made.request,
                made.members,
                made.bootstrap,
                kernels,
                RemotePeers.none(
                    "this communicator shares its parent's connections, which carry no puts",
                    "split with CommunicatorConfig.withSplitShare(false)"),
                null),
            NvlsAccess.NONE,
            made.members.hosts(),
            made.machines,
            made.graphs,
            new PlannedAlgorithms(),
            made.profilers),
        old.resources(),
        kernels,
        new Launcher(kernels, made.request.operationTimeout(), old.launcher()),
        routes);
  }

  /** Throws for what is no value of its setting, before the other ranks are waited for. */
  private Settings checkedSettings(How how) {
    Settings settings = parent.request().settings().with(how.settings());
    Engine.checkNames(settings, parent.device().kind());
    return settings;
  }

  /** A communicator that was revoked has failed, and is there to make others of. */
  private void checkUsable(String what) {
    parent.checkOpen(what);
    if (parent.failure() != null && !parent.isRevoked()) {
      throw parent.failure().again();
    }
  }
}
