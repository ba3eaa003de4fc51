package org.nccl4j.device.cuda;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import jcuda.driver.CUevent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.RemoteSpace;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * A communicator on a GPU. Owned by the thread that prepares and launches, one at a time; {@code
 * abort}, {@code failure} and {@code isIdle} by any.
 */
final class CudaKernelCommunicator implements KernelCommunicator {
  private static final int MOST_RANKS = 254; // a rank is a byte in the kernels' tables

  private final CudaDevice device;
  private final KernelCommunicatorSpec spec;
  private final Undo made;
  private final CommunicatorMemory memory;
  private final CollectivePlans collectives;
  private final NvlsPlans nvls;
  private final P2pPlans p2p;
  private final CUevent order;
  private final StreamProgress progress;
  private final LaunchMarks marks;
  private final int[] capturing = new int[1];
  private final List<DeviceMemory> ofPlans = new ArrayList<>();
  private final KernelFailure failure = new KernelFailure(this::report, this::deadlineRemedy);
  private volatile CudaStream last; // what was launched last is in this stream
  private volatile DirectPlans direct;
  private volatile RemoteArrivals remote;
  private boolean closed;

  private CudaKernelCommunicator(CudaDevice device, KernelCommunicatorSpec spec) {
    this.device = device;
    this.spec = spec;
    made = new Undo(device);
    memory = new CommunicatorMemory(device, spec);
    made.push(memory::close);
    collectives = new CollectivePlans(this, spec, memory);
    p2p = new P2pPlans(this, spec, memory);
    try {
      nvls = new NvlsPlans(this, spec, memory);
      order = device.context().get(() -> JCudaLibrary.createEvent(false, device));
      made.push(() -> JCudaLibrary.destroyEvent(order, device));
      progress = new StreamProgress(device);
      made.push(progress::close);
      marks = new LaunchMarks(device, this::hasGivenUp);
      made.push(marks::close);
      if (spec.launching().implicitOrder()) {
        device.launchOrder().join();
        made.push(device.launchOrder()::leave);
      }
      device.communicators().incrementAndGet();
      made.push(device.communicators()::decrementAndGet);
    } catch (RuntimeException e) {
      ofPlans.forEach(DeviceMemory::close);
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
    return new CudaKernelCommunicator(device, spec);
  }

  CudaDevice device() {
    return device;
  }

  /** Blocks of a cluster that the user asked for, or 0. */
  int clusterBlocks() {
    return spec.launching().clusterBlocks();
  }

  /** Device memory that lives as long as this communicator. */
  synchronized DeviceMemory allocateForPlan(long bytes) {
    DeviceMemory allocated = device.allocate(bytes);
    ofPlans.add(allocated);
    return allocated;
  }

  @Override
  public KernelPlan prepare(CollectiveWork work) {
    checkUsable();
    if (spec.nRanks() == 1) {
      return p2p.prepare(alone(work));
    }
    return switch (work.algorithm()) {
      case NVLS, NVLS_TREE -> nvls.prepare(work);
      case TREE, RING, ONE_SHOT, TWO_SHOT, PAT -> collectives.prepare(work);
    };
  }

  @Override
  public KernelPlan prepare(List<P2pWork> works) {
    checkUsable();
    return p2p.prepare(works);
  }

  @Override
  public void attach(SymmetricSpace given) {
    direct = new DirectPlans(this, spec, memory, given);
  }

  /** The space for windows, or null where there is none yet. */
  SymmetricSpace space() {
    DirectPlans plans = direct;
    return plans == null ? null : plans.space();
  }

  @Override
  public Optional<RemoteSpace.Arrivals> attach(RemoteSpace given) {
    remote = new RemoteArrivals(device, spec, given);
    return Optional.of(remote);
  }

  @Override
  public KernelPlan prepare(DirectWork work) {
    checkUsable();
    return direct.prepare(work);
  }

  @Override
  public KernelPlan prepare(OneSidedWork work) {
    checkUsable();
    if (RemotePlan.isFor(work)) {
      return RemotePlan.of(this, work, remote.puts(), direct);
    }
    return direct.prepare(work);
  }

  /** With one rank every collective is a copy. */
  private static List<P2pWork> alone(CollectiveWork work) {
    long bytes = work.count() * work.type().bytes();
    return List.of(
        new P2pWork(P2pWork.Kind.SEND, 0, null, 0, bytes, work.protocol()),
        new P2pWork(P2pWork.Kind.RECV, 0, null, 0, bytes, work.protocol()));
  }

  @Override
  @HotPath
  public void launch(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    checkUsable();
    if (!(plan instanceof CudaPlan mine) || mine.owner() != this) {
      throw foreign("a plan");
    }
    if (!(stream instanceof CudaStream into) || into.device() != device) {
      throw foreign("a stream");
    }
    into.open();
    checkSize(send, mine.sendBytes(), "send");
    checkSize(recv, mine.recvBytes(), "receive");
    if (mine.isEmpty()) {
      progress.launchedNothing();
      return;
    }
    long before = device.context().enter();
    try {
      if (into != last) {
        follow(into);
      }
      long from = send == null ? 0 : send.address();
      long to = recv == null ? 0 : recv.address();
      if (spec.launching().implicitOrder()) {
        launchInOrder(mine, from, to, into);
      } else {
        mine.launch(from, to, into);
      }
      progress.launched(into);
      spec.progress().kernelLaunched();
    } finally {
      device.context().leave(before);
    }
  }

  private void launchInOrder(CudaPlan plan, long send, long recv, CudaStream into) {
    LaunchOrder order = device.launchOrder();
    synchronized (order) {
      order.follow(into);
      plan.launch(send, recv, into);
      order.launched(into);
    }
  }

  /** Makes a stream go on only when what this communicator launched elsewhere has ended. */
  private void follow(CudaStream into) {
    CudaStream from = last;
    if (from != null && !from.isClosed() && isOrderable(from, into)) {
      JCudaLibrary.recordEvent(order, from.stream(), device);
      JCudaLibrary.awaitEvent(into.stream(), order, device);
    }
    into.addUser(this);
    last = into;
  }

  /** A stream that is being captured cannot wait for one that is not, nor the other way. */
  private boolean isOrderable(CudaStream from, CudaStream into) {
    return JCudaLibrary.isCapturing(from.stream(), capturing, device)
        == JCudaLibrary.isCapturing(into.stream(), capturing, device);
  }

  @Override
  public void abort(NcclException cause) {
    failure.set(cause);
    memory.abort();
    releaseStreams();
  }

  @Override
  public NcclException failure() {
    return released(failure.look());
  }

  /** As {@link #failure}, of a stream whose work has ended. */
  NcclException settledFailure() {
    return released(failure.settled());
  }

  private NcclException released(NcclException known) {
    if (known != null) {
      releaseStreams();
    }
    return known;
  }

  String deadlineRemedy() {
    boolean crowded = device.communicators().get() > 1 && !spec.launching().implicitOrder();
    return "look for the rank that did not take part, or raise the deadline"
        + (crowded
            ? "; if several communicators work on the GPUs at once, NCCL_LAUNCH_ORDER_IMPLICIT=1"
                + " keeps them from holding each other up"
            : "");
  }

  /** What a kernel or a stream that waits too long says; null while all is well, or closed. */
  private String report() {
    if (closed) {
      return null;
    }
    String ofKernel = memory.kernelFailure();
    DirectPlans plans = direct;
    String ofTeam = ofKernel != null || plans == null ? ofKernel : plans.stall();
    RemoteArrivals far = remote;
    return ofTeam != null || far == null ? ofTeam : far.puts().stall();
  }

  private void releaseStreams() {
    DirectPlans plans = direct;
    if (plans != null) {
      plans.release();
    }
    RemoteArrivals far = remote;
    if (far != null) {
      far.puts().release();
    }
  }

  /** Known once a kernel has given up: only then does it write whom it waited for. */
  @Override
  public int waitsFor() {
    return closed ? -1 : memory.failedPeer();
  }

  @Override
  public void explainDeadlines(Supplier<String> newExplanation) {
    failure.explainBy(newExplanation);
  }

  CommunicatorMemory memory() {
    return memory;
  }

  @Override
  public synchronized long memoryBytes() {
    return memory.bytes() + ofPlans.stream().mapToLong(DeviceMemory::size).sum();
  }

  @Override
  public boolean isIdle() {
    CudaStream of = last;
    return of == null || of.isClosed() || progress.isIdle(of);
  }

  @Override
  public long ended() {
    long soFar = progress.launches();
    CudaStream of = last;
    if (of == null || of.isClosed()) {
      marks.allEnded(soFar); // closing it has waited
    } else if (!of.isImplicit()) {
      marks.look(soFar, of);
    } else if (progress.isIdle(of)) {
      marks.allEnded(soFar);
    }
    return marks.ended();
  }

  @Override
  public long firstNotEnded() {
    return Math.max(marks.ended() + 1, marks.firstNotEnded(progress.launches()));
  }

  private boolean hasGivenUp() {
    return failure.known() != null || closed || memory.failedPeer() >= 0;
  }

  @Override
  public void close() {
    if (!closed) {
      failure();
      closed = true;
      ofPlans.forEach(DeviceMemory::close);
      if (direct != null) {
        direct.close();
      }
      if (remote != null) {
        remote.close();
      }
      made.run();
    }
  }

  private void checkUsable() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          spec.name() + " is used after close",
          "close it after its last operation");
    }
    NcclException known = failure();
    if (known != null) {
      throw known.again();
    }
  }

  private static void checkSize(DeviceMemory memory, long needed, String which) {
    if (needed > 0 && (memory == null || memory.size() < needed || !memory.isOpen())) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "the %s buffer has %s, and %d bytes are needed"
              .formatted(
                  which,
                  memory == null
                      ? "not been given"
                      : memory.isOpen() ? memory.size() + " bytes" : "been closed",
                  needed),
          "pass a buffer for count elements, all-gather and reduce-scatter: times the ranks");
    }
  }

  private InvalidArgumentException foreign(String what) {
    return new InvalidArgumentException(
        ErrorId.STREAM,
        "%s of another communicator or device is launched by %s on %s"
            .formatted(what, spec.name(), device),
        "use what this communicator prepared, and a stream of its device");
  }

  /** For messages. */
  @Override
  public String toString() {
    return spec.name() + " on " + device;
  }

  /** Whether an operation reduces; for the plans. */
  static boolean reduces(Collective collective) {
    return collective != Collective.BROADCAST && collective != Collective.ALL_GATHER;
  }
}
