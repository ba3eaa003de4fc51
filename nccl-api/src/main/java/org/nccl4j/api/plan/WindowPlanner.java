package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.Registrations;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.AlgorithmFilter;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.Operation;
import org.nccl4j.device.kernel.P2pWork;

/**
 * Decides whether an operation goes straight between the ranks' buffers, by the windows that they
 * lie in. Every rank decides alike as long as all pass buffers in windows, or none does. Used by
 * one thread at a time.
 */
public final class WindowPlanner {
  private final KernelCommunicator kernels;
  private final WindowRegistry windows;
  private final Planner planner;
  private final CostModel costs;
  private final AlgorithmFilter filter;
  private final CtaLimits ctas;
  private final int nRanks;
  private final boolean reach;

  /** True if all ranks reach each other's memory, and there are others at all. */
  private final boolean possible;

  /** True if kernels can store what is sent into windows of others. */
  private final boolean offers;

  private final PlanCache cache = new PlanCache();

  /**
   * A planner.
   *
   * @param planner of the ways without windows, to compare with
   * @param nvls this rank's place in NVLS, or null
   * @param rules what the other planner goes by too
   */
  public WindowPlanner(
      KernelCommunicator kernels,
      WindowRegistry windows,
      Planner planner,
      CommunicatorProfile ranks,
      Nvls nvls,
      Planner.Rules rules) {
    this.kernels = kernels;
    this.windows = windows;
    this.planner = planner;
    this.costs = ranks.costs(nvls);
    this.filter = rules.filter();
    this.ctas = rules.ctas();
    this.nRanks = ranks.nRanks();
    this.reach = ranks.reach();
    // Processes of a machine can always map each other's memory; GPUs may be unable to.
    boolean maps = ranks.kind() != Device.Kind.CUDA || reach;
    this.offers = ranks.kind() == Device.Kind.CUDA && nRanks > 1;
    this.possible = maps && nRanks > 1 && windows.team().size() == nRanks;
  }

  /** True if the space for windows is worth making before there is a window. */
  public boolean wantsSpace() {
    boolean wanted =
        costs.comparesWindows() && filter.allows(Algorithm.DIRECT_LL)
            || Operation.ofAllRanks().stream()
                .anyMatch(operation -> filter.demands(operation, Algorithm.DIRECT_LL));
    return reach && worksWithoutWindows() && possible && wanted;
  }

  /** True if the device has an algorithm that needs no windows of the user's. */
  private boolean worksWithoutWindows() {
    return costs.algorithms(Operation.ALL_REDUCE).contains(Algorithm.DIRECT_LL);
  }

  private double microseconds(Operation operation, Algorithm way, long bytes) {
    return costs.microseconds(operation, way, way.protocol(), bytes * operation.wholes(nRanks));
  }

  /** The windows that it knows of. */
  public WindowRegistry windows() {
    return windows;
  }

  /** True if there are registered buffers of which the ranks have not decided together. */
  @HotPath
  public boolean isUndecided() {
    return windows.registrations().arePending();
  }

  /**
   * Has the ranks decide of an operation's buffers, as far as all ranks have them; see {@link
   * Registrations#map}.
   */
  public void decide(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    Operation operation = CallShape.operation(shape);
    long bytes = CallShape.bytes(shape, count);
    List<Registrations.Buffer> buffers = new ArrayList<>();
    if (operation != Operation.BROADCAST && operation != Operation.SCATTER) {
      buffers.add(new Registrations.Buffer(send, sendParts(operation) * bytes));
    }
    if (operation != Operation.REDUCE && operation != Operation.GATHER) {
      buffers.add(new Registrations.Buffer(recv, recvParts(operation) * bytes));
    }
    windows.registrations().map(buffers);
  }

  /**
   * The plan of an operation on buffers, or null if it is to take the way without windows.
   *
   * @param shape as {@link CallShape} has it
   */
  @HotPath
  public KernelPlan plan(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    if (!possible || !windows.hasSpace()) {
      return null;
    }
    Operation operation = CallShape.operation(shape);
    if (!operation.isOfAllRanks()) {
      return null;
    }
    long bytes = CallShape.bytes(shape, count);
    RegisteredWindow from = window(send, sendParts(operation) * bytes);
    RegisteredWindow to = window(recv, recvParts(operation) * bytes);
    boolean overlaps = from != null && to != null && overlap(send, recv, operation, bytes);
    PlanCache.Entry known = cache.find(shape, count, from, to, overlaps);
    if (known == null) {
      KernelPlan plan = make(new Call(shape, count, overlaps), from, to);
      known = cache.put(new PlanCache.Entry(shape, count, from, to, overlaps, plan));
    }
    if (known.plan() != null) {
      if (from != null) {
        from.use(kernels.nextLaunch());
      }
      if (to != null) {
        to.use(kernels.nextLaunch());
      }
    }
    return known.plan();
  }

  /** True if the receiver of a message says first where it may go: the same at both ends. */
  @HotPath
  public boolean hasOffer(long bytes) {
    return offers && bytes >= P2pWork.Offer.LEAST_BYTES && !windows.isEmpty();
  }

  /**
   * Returns the window offer of a send or receive, or null. The buffer's window is in use from now
   * on.
   */
  public P2pWork.Offer offer(DeviceMemory buffer, long bytes) {
    if (!hasOffer(bytes)) {
      return null;
    }
    RegisteredWindow found = window(buffer, bytes);
    if (found == null) {
      return P2pWork.Offer.NONE;
    }
    found.use(kernels.nextLaunch());
    return found.offer();
  }

  /**
   * Positions of the buffers of an operation that goes straight between windows, for comparing the
   * ranks. Buffers that the algorithm does not need are left out.
   *
   * @param way ordinal of the {@link Algorithm}; -1 if it goes without windows
   * @param send number of the send buffer's window; 0 if it is of no matter
   * @param sendOffset where in it, in bytes
   * @param recv likewise of the receive buffer
   * @param recvOffset likewise
   */
  public record Placement(int way, long send, long sendOffset, long recv, long recvOffset) {
    /** Without windows. */
    public static final Placement NONE = new Placement(-1, 0, 0, 0, 0);
  }

  /** Returns the positions of an operation's buffers; the arguments are those of {@link #plan}. */
  public Placement placement(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    Operation operation = CallShape.operation(shape);
    if (!possible || !windows.hasSpace() || !operation.isOfAllRanks() || count == 0) {
      return Placement.NONE;
    }
    long bytes = CallShape.bytes(shape, count);
    RegisteredWindow from = window(send, sendParts(operation) * bytes);
    RegisteredWindow to = window(recv, recvParts(operation) * bytes);
    boolean overlaps = from != null && to != null && overlap(send, recv, operation, bytes);
    Algorithm way = way(new Call(shape, count, overlaps), new Given(Given.of(from), Given.of(to)));
    if (way == null) {
      return Placement.NONE;
    }
    boolean sends = way.needsSend(operation);
    boolean recvs = way.needsRecv(operation);
    return new Placement(
        way.ordinal(),
        sends ? from.number() : 0,
        sends ? send.address() - from.view().address() : 0,
        recvs ? to.number() : 0,
        recvs ? recv.address() - to.view().address() : 0);
  }

  /** Inputs of a plan beside the windows. */
  private record Call(long shape, long count, boolean overlaps) {
    long bytes() {
      return CallShape.bytes(shape, count);
    }
  }

  /**
   * The reach of an operation's buffers.
   *
   * @param send the send buffer
   * @param recv the receive buffer
   */
  private record Given(Reach send, Reach recv) {
    static Reach of(RegisteredWindow window) {
      return window == null
          ? Reach.OWN
          : window.view().multicast() == null ? Reach.PEERS : Reach.MULTICAST;
    }

    boolean allows(Algorithm way, Operation operation) {
      Reach least = way == Algorithm.DIRECT_NVLS ? Reach.MULTICAST : Reach.PEERS;
      return (send.compareTo(least) >= 0 || !way.needsSend(operation))
          && (recv.compareTo(least) >= 0 || !way.needsRecv(operation));
    }
  }

  /**
   * The ranks that can address a buffer: its rank, each other rank too, or all ranks' buffers with
   * one access.
   */
  private enum Reach {
    OWN,
    PEERS,
    MULTICAST
  }

  private KernelPlan make(Call call, RegisteredWindow from, RegisteredWindow to) {
    Algorithm way = way(call, new Given(Given.of(from), Given.of(to)));
    if (way == null) {
      return null;
    }
    Operation operation = CallShape.operation(call.shape);
    planner.tell(operation.key(), call.bytes(), way.label() + " between windows");
    return kernels.prepare(
        new DirectWork(
            operation,
            way,
            CallShape.type(call.shape),
            CallShape.op(call.shape),
            CallShape.root(call.shape),
            call.count,
            way.needsSend(operation) ? from.view() : null,
            way.needsRecv(operation) ? to.view() : null,
            ctas.limit(
                costs.channels(
                    operation,
                    new AlgorithmChoice(way, way.protocol(), 0),
                    call.bytes() * operation.wholes(nRanks))),
            ctas.mostOfDevice()));
  }

  /** The cheapest way that the settings and the windows allow, or null for that without windows. */
  private Algorithm way(Call call, Given given) {
    Operation operation = CallShape.operation(call.shape);
    Algorithm best = null;
    double least = Double.POSITIVE_INFINITY;
    boolean demanded = false;
    for (Algorithm way : costs.betweenWindows(operation)) {
      double time = microseconds(operation, way, call.bytes());
      boolean can =
          time < least
              && costs.has(way, operation, CallShape.type(call.shape), CallShape.op(call.shape))
              && (way != Algorithm.DIRECT_NVLS_LL || windows.isCovered())
              && given.allows(way, operation)
              && !(call.overlaps && way.needsApart(operation));
      if (can && filter.allows(operation, way)) {
        best = way;
        least = time;
        demanded = filter.demands(operation, way);
      }
    }
    boolean pays = costs.comparesWindows() && least < plain(call);
    return best != null && (demanded || pays) ? best : null;
  }

  private double plain(Call call) {
    double time = planner.microseconds(call.shape, call.count);
    return Double.isNaN(time)
        ? microseconds(CallShape.operation(call.shape), Algorithm.PAIRWISE, call.bytes())
        : time;
  }

  @HotPath
  private RegisteredWindow window(DeviceMemory memory, long bytes) {
    RegisteredWindow found = memory == null ? null : windows.find(memory.address(), bytes);
    if (found != null && Leases.of(found.memory()).isOver()) {
      throw gone(found);
    }
    return found;
  }

  /**
   * Returns the error for a window whose addresses now hold other memory than the other ranks have
   * mapped.
   */
  private static InvalidUsageException gone(RegisteredWindow window) {
    return new InvalidUsageException(
        ErrorId.CLOSED,
        "an operation's buffer lies in window %d, whose memory (%s) was closed while it was registered"
            .formatted(window.number(), window.memory()),
        "deregister memory before it is closed");
  }

  @HotPath
  private long sendParts(Operation operation) {
    return operation.sendParts(nRanks, /* isRoot= */ true);
  }

  @HotPath
  private long recvParts(Operation operation) {
    return operation.recvParts(nRanks, /* isRoot= */ true);
  }

  @HotPath
  private boolean overlap(DeviceMemory send, DeviceMemory recv, Operation operation, long bytes) {
    return send.address() < recv.address() + recvParts(operation) * bytes
        && recv.address() < send.address() + sendParts(operation) * bytes;
  }

  /** The direct ways of an operation with both buffers in windows, as lines of a table. */
  public String explain(Operation operation, long count, DataType type) {
    if (!operation.isOfAllRanks() || !possible) {
      return "";
    }
    long bytes = count * type.bytes();
    StringBuilder text = new StringBuilder();
    text.append("  with buffers in windows; costs: %s%n".formatted(costs.windowSource()));
    for (Algorithm way : costs.betweenWindows(operation)) {
      double time = microseconds(operation, way, bytes);
      if (time >= CostModel.ONLY_WHERE_ASKED && time < Double.POSITIVE_INFINITY) {
        text.append(
            "  %-16s %-7s not measured: taken only where NCCL_ALGO names it%n"
                .formatted(way.label(), way.protocol().label()));
      } else if (time < Double.POSITIVE_INFINITY) {
        text.append(
            "  %-16s %-7s %11.2f us%n".formatted(way.label(), way.protocol().label(), time));
      }
    }
    text.append(
        "  chosen with windows: %s, out of place%n"
            .formatted(
                withWindows(operation, count, type)
                    .map(AlgorithmChoice::toString)
                    .orElse("as without")));
    return text.toString();
  }

  /**
   * The direct way of an operation with its buffers in windows, out of place; empty if the way
   * without windows is taken.
   */
  public Optional<AlgorithmChoice> withWindows(Operation operation, long count, DataType type) {
    if (!operation.isOfAllRanks() || !possible) {
      return Optional.empty();
    }
    long shape = CallShape.of(operation, type, RedOp.SUM, 0);
    Call call = new Call(shape, count, /* overlaps= */ false);
    Reach best = windows.hasSpace() && !windows.isCovered() ? Reach.PEERS : Reach.MULTICAST;
    return Optional.ofNullable(way(call, new Given(best, best)))
        .map(
            way ->
                new AlgorithmChoice(
                    way, way.protocol(), microseconds(operation, way, call.bytes())));
  }
}
