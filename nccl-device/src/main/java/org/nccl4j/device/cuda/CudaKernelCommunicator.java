package org.nccl4j.device.cuda;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.copy.CopyEngineP2p;
import org.nccl4j.device.cuda.driver.CudaContext;
import org.nccl4j.device.cuda.driver.CudaResult;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.GpuCleanup;
import org.nccl4j.device.cuda.driver.LaunchGate;
import org.nccl4j.device.cuda.driver.OffheapPool;
import org.nccl4j.device.cuda.plan.CollectivePlans;
import org.nccl4j.device.cuda.plan.CommunicatorMemory;
import org.nccl4j.device.cuda.plan.ConnectionSizes;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.LocalReductionPlans;
import org.nccl4j.device.cuda.plan.NvlsPlans;
import org.nccl4j.device.cuda.plan.P2pPlans;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.plan.PlanMemory;
import org.nccl4j.device.cuda.plan.PlanTables;
import org.nccl4j.device.cuda.plan.PreMulPlans;
import org.nccl4j.device.cuda.plan.QuantisedPlans;
import org.nccl4j.device.cuda.rma.GpuGinDevice;
import org.nccl4j.device.cuda.rma.RmaPlan;
import org.nccl4j.device.cuda.rma.RmaReceiver;
import org.nccl4j.device.cuda.stream.CaptureRegistry;
import org.nccl4j.device.cuda.stream.ConnectionOrder;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.LaunchEvents;
import org.nccl4j.device.cuda.stream.SlowWaitProbe;
import org.nccl4j.device.cuda.stream.StreamProgress;
import org.nccl4j.device.cuda.stream.StreamUser;
import org.nccl4j.device.cuda.stream.UsedGraphs;
import org.nccl4j.device.cuda.stream.UsedStreams;
import org.nccl4j.device.cuda.window.DirectPlans;
import org.nccl4j.device.cuda.window.ExpertPlans;
import org.nccl4j.device.cuda.window.RaggedPlans;
import org.nccl4j.device.kernel.CapturedLaunches;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.kernel.SharedConnections;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.kernel.gin.GinProxy;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.operation.Algorithm;

/**
 * A communicator on a GPU. Owned by the thread that prepares and launches, one at a time; {@code
 * abort}, {@code failure} and {@code isIdle} by any.
 */
@SuppressWarnings("exports") // to this library alone
final class CudaKernelCommunicator
    implements KernelCommunicator, StreamUser, ConnectionUsers.Member, CudaGroupLaunch.Kernels {
  static final int MOST_RANKS = KernelLayout.NONE; // a rank has 16 bits in the kernels' tables

  private static final String SAME_CALLS =
      "make the same calls in the same order on all ranks, with buffers at the same offsets of"
          + " their windows (NCCL_CHECK_MODE=DEBUG_GLOBAL compares the calls of all ranks)";

  private static final String EXPERT_ARGUMENTS =
      "pass experts from -1, for none, to one less than all, outputs with a row for each that was"
          + " received, and a result with a row for each token; then create the communicator anew";

  private static final String RAGGED_COUNTS =
      "pass counts that the exchange's sizes allow and the send buffer has, to a reduce-scatter the"
          + " same on all ranks, or create the exchange with larger sizes; first create the communicator anew";

  private final CudaDevice device;
  private final Gpu gpu;
  private final CudaContext primary;
  private final Offheap scratch = new Offheap(8); // owner: the thread that launches
  private final KernelCommunicatorSpec spec;
  private final GpuCleanup made;
  private final ConnectionUsers users;
  private final ConnectionOrder order;
  private final int[] firstRanks; // this communicator's ranks, as ranks of the users' first
  private final CommunicatorMemory memory;
  private final SlowWaitProbe longWaits;
  private final CollectivePlans collectives;
  private final PreMulPlans preMul;
  private final QuantisedPlans quantised;
  private final NvlsPlans nvls;
  private final P2pPlans p2p;
  private final LateConnections late;
  private final StreamProgress progress;
  private final LaunchEvents marks;
  private final PlanMemory ofPlans;
  private final PlanTables tables;
  private final PlanContext context; // known to plans
  private final CopyEngineP2p copies;
  private final KernelFailure failure;
  private final LaunchGate gate;
  private final CudaGroupLaunch together; // null where groups are not launched together
  private final UsedStreams streams = new UsedStreams(this);
  private final UsedGraphs graphs = new UsedGraphs(this);
  private CaptureRegistry.Capture capture; // of the launch under way, if it is of this library
  private volatile GpuStream last; // of the last launch or replay; written with the order held
  private volatile DirectPlans direct;
  private volatile RmaReceiver remote;
  private volatile GinProxy kernelPuts;
  private volatile boolean closed;

  private CudaKernelCommunicator(
      CudaDevice device,
      KernelCommunicatorSpec spec,
      ConnectionUsers given,
      CommunicatorMemory.Place place) {
    this.device = device;
    this.gpu = device.gpu();
    this.primary = gpu.context();
    this.spec = spec;
    this.firstRanks = place.firstRanks();
    made = new GpuCleanup(gpu);
    ofPlans = new PlanMemory(gpu);
    tables = new PlanTables(gpu, device.captures());
    users = given == null ? new ConnectionUsers(gpu, device.captures(), spec) : given;
    if (given == null) {
      made.push(users::close);
    }
    order = users.order();
    failure = new KernelFailure(users, this::complaint, this::kindOfFailure);
    try {
      memory = new CommunicatorMemory(gpu, spec, users.memory(), place);
    } catch (RuntimeException e) {
      made.run();
      throw e;
    }
    made.push(memory::close);
    longWaits = new SlowWaitProbe(memory::waiting);
    context =
        new PlanContext(
            gpu,
            device.kernels(),
            spec,
            memory,
            ofPlans,
            tables,
            new OffheapPool(),
            new CudaKernelPlan.Last());
    collectives = new CollectivePlans(context);
    preMul = new PreMulPlans(context, collectives);
    quantised = new QuantisedPlans(context);
    p2p = new P2pPlans(context);
    late = new LateConnections(spec, users.memory(), memory);
    copies = new CopyEngineP2p(context);
    try {
      nvls = new NvlsPlans(context);
      progress = new StreamProgress(gpu);
      made.push(progress::close);
      marks =
          new LaunchEvents(
              gpu, () -> users.failure() != null || closed || memory.failedPeer() >= 0);
      made.push(marks::close);
      if (spec.launching().implicitOrder()) {
        device.launchOrder().join();
        made.push(device.launchOrder()::leave);
      }
      if (spec.nRanks() > 1 && !spec.launching().preload().isEmpty()) { // one rank waits for none
        device.kernels().preload(spec.launching().preload(), spec.nvls());
      }
      device.communicators().incrementAndGet();
      made.push(device.communicators()::decrementAndGet);
      gate = gpu.launchGates().add();
      made.push(() -> gpu.launchGates().remove(gate));
      together = spec.launching().fusesGroups() ? new CudaGroupLaunch(this) : null;
      users.add(this);
    } catch (RuntimeException e) {
      ofPlans.close();
      made.run();
      throw e;
    }
  }

  static CudaKernelCommunicator create(CudaDevice device, KernelCommunicatorSpec spec) {
    if (spec.nRanks() > MOST_RANKS) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "a communicator of %d ranks on %s".formatted(spec.nRanks(), device),
          "use at most " + MOST_RANKS + " ranks");
    }
    ConnectionSizes.check(spec.layout());
    int[] own = IntStream.range(0, spec.nRanks()).toArray();
    KernelCommunicatorSpec growing =
        spec.withConnections(new ArrayList<>(spec.sends()), new ArrayList<>(spec.recvs()));
    return new CudaKernelCommunicator(
        device, growing, null, new CommunicatorMemory.Place(own, CommunicatorMemory.Place.FIRST));
  }

  /**
   * {@inheritDoc} Nothing would order what a graph of another library launches with what another
   * communicator does. And a split's rings lead over pairs whose late connections have fewer
   * channels than those of the rings here.
   */
  @Override
  public Optional<String> sharingObstacle() {
    return late.mayLack()
        ? Optional.of("pairs of ranks are connected when messages first need it")
        : order.sharingObstacle();
  }

  @Override
  public KernelCommunicator share(
      KernelCommunicatorSpec child, List<Integer> parentRanks, String path) {
    int[] ranks = parentRanks.stream().mapToInt(rank -> firstRanks[rank]).toArray();
    order.share();
    CommunicatorMemory.Place place = new CommunicatorMemory.Place(ranks, path);
    return new CudaKernelCommunicator(
        device, ConnectionUsers.connected(child, spec, parentRanks), users, place);
  }

  @Override
  public boolean isInGraphs() {
    return order.isInGraphs();
  }

  /** Returns the order of all communicators that share these connections. */
  @Override
  public ConnectionOrder order() {
    return order;
  }

  @Override
  public KernelPlan prepare(CollectiveWork work) {
    checkUsable();
    if (spec.nRanks() == 1) {
      return p2p.prepareAlone(work);
    }
    return switch (work.algorithm()) {
      case NVLS, NVLS_TREE -> nvls.prepare(work);
      default -> collectives.prepare(work);
    };
  }

  @Override
  public KernelPlan prepare(CollectiveWork work, ReductionOperator operator) {
    checkUsable();
    return preMul.prepare(work, operator);
  }

  @Override
  public boolean reducesByOperator(Algorithm algorithm) {
    return PreMulPlans.has(algorithm);
  }

  @Override
  public boolean hasCopyEngines() {
    return true;
  }

  @Override
  public KernelPlan prepare(List<P2pWork> works) {
    checkUsable();
    late.connect(works);
    return works.stream().anyMatch(copies::takes)
        ? copies.prepare(works, p2p::prepare)
        : p2p.prepare(works);
  }

  @Override
  public KernelPlan prepareInSteps(List<List<P2pWork>> steps) {
    return p2p.inTurn(steps.stream().map(works -> own(prepare(works))).toList());
  }

  @Override
  public void attach(SymmetricSpace given) {
    direct = new DirectPlans(context, given);
    p2p.attach(given);
  }

  @Override
  public Optional<RmaSpace.Arrivals> attach(RmaSpace given) {
    remote = new RmaReceiver(gpu, spec, given);
    return Optional.of(remote);
  }

  @Override
  public Optional<RmaSpace.KernelPuts> attachKernelPuts(RmaSpace given) {
    int slotBytes = spec.layout().simpleSlotBytes() / ConnectionLayout.CHANNELS;
    GinProxy.Of of = new GinProxy.Of(spec.name(), spec.rank(), spec.layout(), slotBytes);
    kernelPuts = new GinProxy(of, given, new GpuGinDevice(gpu), () -> users.failure() != null);
    return Optional.of(kernelPuts);
  }

  @Override
  public synchronized Optional<RmaSpace.KernelRing> controlRing(int signals) {
    if (kernelPuts == null) {
      List<Connection> none = Collections.nCopies(spec.nRanks(), null);
      attachKernelPuts(new RmaSpace(none, none, null));
    }
    return Optional.of(kernelPuts.open(signals));
  }

  @Override
  public void attach(Nvls made) {
    nvls.attach(made);
  }

  @Override
  public KernelPlan prepare(WindowWork work) {
    checkUsable();
    return direct.prepare(work);
  }

  @Override
  public ExpertKernels.Steps expertSteps(ExpertSizes sizes, int mostBlocks) {
    checkUsable();
    return new ExpertPlans(context).steps(sizes, mostBlocks);
  }

  @Override
  public Optional<ExpertKernels> expertKernels() {
    return Optional.of(new ExpertPlans(context));
  }

  @Override
  public Optional<RaggedKernels> raggedKernels() {
    return Optional.of(new RaggedPlans(context));
  }

  @Override
  public KernelPlan prepare(QuantisedWork work) {
    checkUsable();
    return quantised.prepare(work);
  }

  @Override
  public KernelPlan prepare(LocalReduction work) {
    checkUsable();
    return new LocalReductionPlans(context).prepare(work);
  }

  @Override
  public KernelPlan prepare(OneSidedWork work) {
    checkUsable();
    return RmaPlan.isFor(work)
        ? RmaPlan.of(context, work, remote.puts(), near -> direct.prepare(near))
        : direct.prepare(work);
  }

  @Override
  @HotPath
  @SuppressWarnings("ReferenceEquality") // the context is one for each communicator
  public CudaPlan own(KernelPlan plan) {
    if (!(plan instanceof CudaPlan mine) || mine.owner() != context) {
      throw CudaPlan.foreign("a plan", this);
    }
    return mine;
  }

  @Override
  @HotPath
  public GpuStream own(DeviceStream stream) {
    if (!(stream instanceof CudaStream cuda) || cuda.device() != device) {
      throw CudaPlan.foreign("a stream", this);
    }
    return cuda.open();
  }

  @Override
  @HotPath
  public void launch(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    checkNotFailed(users.failure()); // the launch has just looked for new failures
    CudaPlan mine = own(plan);
    GpuStream into = own(stream);
    mine.check(send, recv);
    if (mine.isEmpty(send, recv)) {
      if (last != null && into != last) {
        followOnly(into);
      }
      progress.launched();
      return;
    }
    if (send == null && recv == null) { // of the memories that a plan names, callers have leases
      launchNow(mine, null, null, into, 1);
      return;
    }
    gate.enter();
    try {
      checkNotOver(send);
      checkNotOver(recv);
      launchNow(mine, send, recv, into, 1);
    } finally {
      gate.leave();
    }
  }

  @Override
  public GroupLaunch groupLaunch() {
    return together;
  }

  /** A group launches also with memory that was closed after the call. */
  @HotPath
  private static void checkNotOver(DeviceMemory memory) {
    if (memory != null && Leases.of(memory).isOver()) {
      throw Leases.closed(memory);
    }
  }

  @HotPath
  private void launchNow(
      CudaPlan plan, DeviceMemory send, DeviceMemory recv, GpuStream into, int operations) {
    long before = primary.enter(scratch);
    try {
      long from = send == null ? 0 : send.address();
      long to = recv == null ? 0 : recv.address();
      boolean captured = false;
      if (into == last && order.isPlain(into)) {
        put(plan, from, to, into);
      } else {
        captured = putInOrder(plan, from, to, into);
      }
      long launches = progress.launched(operations);
      if (captured) {
        noteCaptured(launches - operations, launches);
      } else if (!into.isOwned()) {
        marks.launched(launches, into, System.nanoTime());
      }
      spec.progress().kernelLaunched();
    } catch (CudaException e) {
      failLost(e);
      throw e;
    } finally {
      primary.leave(before);
    }
  }

  private void noteCaptured(long above, long upTo) {
    if (capture != null) {
      capture.launches(graphs).add(above, upTo);
      capture = null;
    }
  }

  @Override
  public void visitCaptured(Consumer<CapturedLaunches> visitor) {
    graphs.visit(visitor);
  }

  @Override
  public void launchTogether(
      CudaPlan plan, GpuStream into, List<DeviceMemory> buffers, int from, int to) {
    checkNotFailed(users.failure());
    gate.enter();
    try {
      for (int buffer = 2 * from; buffer < 2 * to; buffer++) {
        checkNotOver(buffers.get(buffer));
      }
      launchNow(plan, null, null, into, to - from);
    } finally {
      gate.leave();
    }
  }

  /** Has a stream wait for the last launch, which was in another one, and launches nothing. */
  private void followOnly(GpuStream into) {
    long before = primary.enter(scratch);
    try {
      synchronized (order) {
        order.follow(into);
        order.launched(into);
        uses(into);
      }
    } finally {
      primary.leave(before);
    }
  }

  /** Launches a plan after the launch before; true if it was captured. */
  private boolean putInOrder(CudaPlan plan, long send, long recv, GpuStream into) {
    boolean captured;
    synchronized (order) {
      order.follow(into);
      context.last().goesInto(order.capture());
      try {
        put(plan, send, recv, into);
      } finally {
        context.last().goesInto(0);
      }
      captured = order.launched(into);
      capture = order.ownCapture();
      uses(into);
    }
    return captured;
  }

  /** Its last work is in a stream now. */
  private void uses(GpuStream into) {
    assert Thread.holdsLock(order);
    if (into != last) {
      streams.add(into);
      last = into;
    }
  }

  /** Launches a plan, if implicit order is set after the launches of other communicators. */
  private void put(CudaPlan plan, long send, long recv, GpuStream into) {
    if (spec.launching().implicitOrder()) {
      device.launchOrder().launch(plan, send, recv, into);
    } else {
      plan.launch(send, recv, into);
    }
  }

  @Override
  public void abort(NcclException cause) {
    users.fail(cause);
  }

  @Override
  @HotPath
  public NcclException failure() {
    if (users.failure() == null && mayComplain()) {
      failure.look();
    }
    if (users.failure() == null && users.count() > 1) {
      users.glance(this);
    }
    return released(users.failure());
  }

  /** True if there may be a {@link #complaint}. Without windows only kernels have any. */
  @HotPath
  private boolean mayComplain() {
    return !closed && (memory.hasFailed() || direct != null || remote != null);
  }

  /**
   * Returns {@link #failure} for a stream whose work has ended. Kernels behind a timed-out kernel
   * of another communicator on the same connections may have produced garbage.
   */
  @Override
  public NcclException settledFailure() {
    if (failure.settled() == null) {
      users.look(this);
    }
    return released(users.failure());
  }

  @HotPath
  private NcclException released(NcclException known) {
    if (known != null) {
      releaseStreams();
    }
    return known;
  }

  /** Fails by a complaint. */
  @Override
  public void explain(String complaint) {
    failure.explain(complaint);
  }

  /** All that use the connections have failed: kernels and waits here end. */
  @Override
  public void end() {
    memory.abort();
    if (p2p.hasExposed()) {
      spec.progress().endExposures();
    }
    releaseStreams();
  }

  /** The error of a complaint, as the kernels' memory has it now. */
  private Function<String, NcclException> kindOfFailure() {
    if (memory.isOfAnotherCall()) {
      return complaint -> new InvalidUsageException(ErrorId.CALLS_DIFFER, complaint, SAME_CALLS);
    }
    if (memory.isOfArguments()) {
      return complaint ->
          new InvalidArgumentException(ErrorId.ARGUMENT, complaint, EXPERT_ARGUMENTS);
    }
    if (memory.isOfCounts()) {
      return complaint -> new InvalidArgumentException(ErrorId.COUNT, complaint, RAGGED_COUNTS);
    }
    return memory.isOutOfOrder()
        ? SharedConnections::mismatch
        : complaint -> new TimeoutException(ErrorId.OPERATION, complaint, deadlineRemedy());
  }

  String deadlineRemedy() {
    boolean crowded =
        device.communicators().get() > users.count() && !spec.launching().implicitOrder();
    boolean fused = together != null && together.isUsed();
    return "look for the rank that did not take part, or raise the deadline"
        + (fused
            ? "; all ranks must have the same collectives in a group, or set NCCL4J_GROUP_FUSE=0"
                + " on all of them"
            : "")
        + (crowded
            ? "; if several communicators work on the GPUs at once, NCCL_LAUNCH_ORDER_IMPLICIT=1"
                + " keeps them from blocking each other; if ranks share a GPU, launch"
                + " their operations in one group, or set CUDA_DEVICE_MAX_CONNECTIONS=32"
            : "");
  }

  /**
   * Returns the report of a kernel or stream that waits too long. Null if there is none, or if
   * closed.
   */
  @Override
  public String complaint() {
    if (closed) {
      return null;
    }
    String ofKernel = memory.kernelFailure();
    DirectPlans plans = direct;
    String ofTeam = ofKernel != null || plans == null ? ofKernel : plans.stall();
    RmaReceiver far = remote;
    return ofTeam != null || far == null ? ofTeam : far.puts().stall();
  }

  /** The driver is called last, since its calls may fail. */
  private void releaseStreams() {
    if (remote != null) {
      remote.puts().release();
    }
    if (kernelPuts != null) {
      kernelPuts.release();
    }
    if (direct != null) {
      direct.release();
    }
  }

  @Override
  public int waitsFor() {
    if (closed) {
      return -1;
    }
    int failed = memory.failedPeer();
    return failed >= 0 ? failed : longWaits.rank();
  }

  @Override
  public void explainDeadlines(Supplier<String> newExplanation, Supplier<String> remedy) {
    failure.explainBy(newExplanation, remedy);
  }

  CommunicatorMemory memory() {
    return memory;
  }

  @Override
  public long memoryBytes() {
    return (users.isFirst(this) ? users.memory().bytes() : 0) + ofPlans.bytes() + tables.bytes();
  }

  /** Fails by an error that ends the context, and throws any other. */
  private void failLost(CudaException e) {
    if (!CudaResult.isContextLost(e)) {
      throw e;
    }
    abort(e);
  }

  @Override
  public boolean isIdle() {
    try {
      return hasReachedAll();
    } catch (CudaException e) {
      failLost(e);
      return true; // in a lost context nothing runs
    }
  }

  private boolean hasReachedAll() {
    GpuStream of = last;
    if (order.isInOtherGraphs() || of != null && !of.isOwned()) {
      return order.isReached();
    }
    return of == null || of.isClosed() || progress.isIdle(of);
  }

  @Override
  public long nextLaunch() {
    return progress.launches() + 1;
  }

  @Override
  public boolean hasEnded(long launch) {
    return isInGraphs() ? isIdle() : ended() >= launch;
  }

  @Override
  public long ended() {
    try {
      return marks.ended(progress.launches(), last, order);
    } catch (CudaException e) {
      failLost(e);
      return marks.ended();
    }
  }

  @Override
  public long firstNotEnded() {
    return Math.max(marks.ended() + 1, marks.firstNotEnded(progress.launches()));
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    CloseAll all = new CloseAll();
    all.take(this::failure);
    users.remove(this, () -> closed = true);
    streams.leave(users.failure());
    if (users.count() > 0) {
      all.take(order::left);
    }
    all.take(ofPlans::close);
    all.take(tables::close);
    all.take(copies::close);
    all.take(collectives::close);
    if (direct != null) {
      all.take(direct::close);
    }
    if (remote != null) {
      all.take(remote::close);
    }
    if (kernelPuts != null) {
      all.take(kernelPuts::close);
    }
    all.take(made::run);
    all.end();
  }

  @Override
  public void checkReplay() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "a graph with operations of %s is launched after the communicator's close or suspend"
              .formatted(spec.name()),
          "launch it before; after resume capture the operations anew");
    }
    checkUsable();
  }

  @Override
  public void replayed(GpuStream into) {
    synchronized (order) {
      uses(into);
    }
  }

  private void checkUsable() {
    checkNotFailed(closed ? null : failure());
  }

  @HotPath
  private void checkNotFailed(NcclException known) {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          spec.name() + " is used after close",
          "close it after its last operation");
    }
    if (known != null) {
      throw known.again();
    }
  }

  @Override
  public String toString() {
    return context.toString();
  }
}
