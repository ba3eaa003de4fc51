package org.nccl4j.device.host.kernel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.kernel.algorithm.KernelContext;
import org.nccl4j.device.host.kernel.algorithm.SendRecv;
import org.nccl4j.device.host.kernel.nvls.NvlsInPlace;
import org.nccl4j.device.host.kernel.nvls.NvlsLines;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Lane;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.kernel.window.HostGinDevice;
import org.nccl4j.device.host.kernel.window.HostRmaReceiver;
import org.nccl4j.device.host.kernel.window.HostRmaSender;
import org.nccl4j.device.host.kernel.window.RmaKernels;
import org.nccl4j.device.host.kernel.window.TeamBarrier;
import org.nccl4j.device.host.kernel.window.WindowKernels;
import org.nccl4j.device.host.memory.CacheShare;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.BlockQuantiser;
import org.nccl4j.device.host.reduce.LocalReducer;
import org.nccl4j.device.host.stream.HostStream;
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
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.kernel.gin.GinProxy;
import org.nccl4j.device.support.CopyWays;
import org.nccl4j.device.symmetric.SymmetricSpace;

/** A communicator on the host device. */
public final class HostKernelCommunicator implements KernelCommunicator {
  private static final VarHandle TICKETS;
  private static final VarHandle LAST_TICKET;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      TICKETS = lookup.findVarHandle(HostKernelCommunicator.class, "tickets", long.class);
      LAST_TICKET = lookup.findVarHandle(HostKernelCommunicator.class, "lastTicket", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final KernelCommunicatorSpec spec;
  private final CacheShare cache;
  private final BufferCopies copies = new BufferCopies();
  private final SpinWait waiter;
  private final KernelSerializer turns;
  private final ConnectionTable ends;
  private final HostMemory scratch;
  private final Kernels kernels;
  private volatile SymmetricSpace space;
  private volatile RmaKernels oneSided;
  private volatile HostRmaSender remotePuts;
  private volatile HostMemory remoteSignals;
  private volatile GinProxy kernelPuts;
  private volatile TeamBarrier arrivals;

  /** Null where no window is reached by multicast. */
  private volatile NvlsLines nvlsLines;

  /** The owner of the connections; itself unless it was made by {@link #share}. */
  private final HostKernelCommunicator root;

  /** Launches so far of all that share. Written by the launching thread; read by isIdle. */
  private volatile long tickets;

  /** One more than the ticket of its own last launch. */
  private volatile long lastTicket;

  /** A communicator whose scratch memory comes from a device. */
  public HostKernelCommunicator(KernelCommunicatorSpec spec, Device device) {
    this.spec = spec;
    this.cache = new CacheShare(spec.local());
    this.waiter =
        new SpinWait(
            spec.name(), spec.rank(), spec.deadline(), spec.hasCoresForAll(), spec.progress());
    this.ends = new ConnectionTable(spec);
    this.turns = new KernelSerializer(waiter, spec.progress(), ends);
    this.waiter.know(turns::following);
    this.scratch =
        HostMemory.of(
            device.allocate(KernelContext.scratchBytes(spec, WindowKernels.scratchBytes())));
    this.kernels = new Kernels(new KernelContext(spec, ends, waiter, scratch, copies, cache));
    this.root = this;
  }

  /** One that uses another's connections, and runs its kernels in one order with it. */
  private HostKernelCommunicator(
      KernelCommunicatorSpec spec,
      HostKernelCommunicator parent,
      List<Integer> parentRanks,
      String path) {
    this.spec = spec;
    this.cache = new CacheShare(spec.local());
    this.root = parent.root;
    this.waiter =
        parent.waiter.child(spec.name(), spec.rank(), spec.deadline(), spec.hasCoresForAll());
    this.turns = parent.turns;
    this.waiter.know(turns::following);
    this.ends = new ConnectionTable(spec, parent.ends, parentRanks, path);
    this.scratch = parent.scratch;
    this.kernels = new Kernels(new KernelContext(spec, ends, waiter, scratch, copies, cache));
  }

  @Override
  public Optional<String> sharingObstacle() {
    return Optional.empty();
  }

  @Override
  public KernelCommunicator share(
      KernelCommunicatorSpec childSpec, List<Integer> parentRanks, String path) {
    return new HostKernelCommunicator(childSpec, this, parentRanks, path);
  }

  @Override
  public long nextLaunch() {
    return root.tickets + 1;
  }

  @Override
  public boolean hasEnded(long launch) {
    return turns.reached(launch);
  }

  @Override
  public long ended() {
    return turns.ended(ends);
  }

  @Override
  public long bytesSent(int peer) {
    return ends.bytesSent(peer);
  }

  @Override
  public int waitsFor() {
    return waiter.waitsFor();
  }

  @Override
  public void explainDeadlines(Supplier<String> explanation, Supplier<String> remedy) {
    waiter.explain(explanation, remedy);
  }

  @Override
  public void explainMismatches(IntFunction<String> calls) {
    waiter.explainMismatches(calls);
  }

  @Override
  public long memoryBytes() {
    HostMemory signals = remoteSignals;
    return (root == this ? scratch.size() : 0) + (signals == null ? 0 : signals.size());
  }

  @Override
  public KernelPlan prepare(CollectiveWork work) {
    return connected(kernels.of(work));
  }

  @Override
  public KernelPlan prepare(CollectiveWork work, ReductionOperator operator) {
    return connected(kernels.of(work, operator));
  }

  @Override
  public KernelPlan prepare(List<P2pWork> works) {
    return connected(messages(works));
  }

  @Override
  public KernelPlan prepareInSteps(List<List<P2pWork>> steps) {
    return connected(new SendRecv.Steps(steps.stream().map(this::messages).toList()));
  }

  private SendRecv messages(List<P2pWork> works) {
    Map<Integer, List<P2pWork>> sends = new LinkedHashMap<>();
    Map<Integer, List<P2pWork>> recvs = new LinkedHashMap<>();
    for (P2pWork work : works) {
      (work.kind() == P2pWork.Kind.SEND ? sends : recvs)
          .computeIfAbsent(work.peer(), peer -> new ArrayList<>())
          .add(work);
    }
    long received = recvs.values().stream().flatMap(List::stream).mapToLong(P2pWork::bytes).sum();
    boolean leaves = cache.isExceeded(received);
    List<P2pWork> own = ownPairs(sends.remove(spec.rank()), recvs.remove(spec.rank()));
    List<Lane.Out> outs = new ArrayList<>();
    List<Lane.In> ins = new ArrayList<>();
    sends.forEach((peer, list) -> outs.add(new Lane.Out(ends.send(peer), list)));
    recvs.forEach((peer, list) -> ins.add(new Lane.In(ends.recv(peer), list, leaves, waiter)));
    return new SendRecv(outs, ins, own, copies, leaves, waiter);
  }

  /** The plan of a kernel, once the ends that it uses have their connections. */
  private KernelPlan connected(Kernel kernel) {
    ends.connect();
    return new KernelSerializer.Plan(turns, ends, kernel);
  }

  @Override
  public void attach(SymmetricSpace given) {
    space = given;
    oneSided = new RmaKernels(given, waiter, copies, cache);
    arrivals = new TeamBarrier(given, waiter);
    nvlsLines =
        spec.nvls() == null || given.resources().multicast() == null
            ? null
            : new NvlsLines(spec.nvls(), given, waiter, scratch);
  }

  @Override
  public Optional<RmaSpace.Arrivals> attach(RmaSpace remote) {
    Device device = scratch.device();
    HostMemory signals = HostMemory.of(device.allocate(HostRmaSender.signal(spec.nRanks())));
    HostRmaSender puts = new HostRmaSender(remote, spec.layout(), signals, waiter, ends);
    remoteSignals = signals;
    remotePuts = puts;
    return Optional.of(new HostRmaReceiver(spec.rank(), remote, spec.layout(), signals, puts));
  }

  @Override
  public Optional<RmaSpace.KernelPuts> attachKernelPuts(RmaSpace remote) {
    GinProxy.Of of =
        new GinProxy.Of(spec.name(), spec.rank(), spec.layout(), spec.layout().simpleSlotBytes());
    HostGinDevice here = new HostGinDevice(scratch.device());
    kernelPuts = new GinProxy(of, remote, here, () -> failure() != null);
    return Optional.of(kernelPuts);
  }

  @Override
  public void attach(Nvls made) {
    kernels.attach(made);
  }

  @Override
  public KernelPlan prepare(WindowWork work) {
    Kernel kernel =
        switch (work.algorithm()) {
          case DIRECT_NVLS -> new NvlsInPlace(work, spec.nvls(), space, arrivals, scratch);
          case DIRECT_NVLS_LL -> nvlsLines.of(work);
          default -> new WindowKernels(work, space, arrivals, scratch, copies, cache);
        };
    return new KernelSerializer.Plan(turns, ends, kernel);
  }

  @Override
  public ExpertKernels.Steps expertSteps(ExpertSizes sizes, int mostBlocks) {
    return new ExpertPlans(turns, ends, sizes);
  }

  @Override
  public KernelPlan prepare(QuantisedWork work) {
    return new KernelSerializer.Plan(turns, ends, new BlockQuantiser(work)::run);
  }

  @Override
  public KernelPlan prepare(LocalReduction work) {
    return new KernelSerializer.Plan(turns, ends, new LocalReducer(work)::run);
  }

  @Override
  public KernelPlan prepare(OneSidedWork work) {
    Kernel kernel =
        work instanceof OneSidedWork.RemotePut put
            ? remotePuts.of(put)
            : oneSided.of(work, remotePuts);
    return new KernelSerializer.Plan(turns, ends, kernel);
  }

  private List<P2pWork> ownPairs(List<P2pWork> sends, List<P2pWork> recvs) {
    int nSends = sends == null ? 0 : sends.size();
    int nRecvs = recvs == null ? 0 : recvs.size();
    if (nSends != nRecvs) {
      throw new InvalidUsageException(
          ErrorId.SELF_SEND,
          "rank %d has %d sends to itself and %d receives from itself in one group"
              .formatted(spec.rank(), nSends, nRecvs),
          "match each send to the own rank with a receive in the same group");
    }
    List<P2pWork> pairs = new ArrayList<>();
    for (int w = 0; w < nSends; w++) {
      if (sends.get(w).bytes() != recvs.get(w).bytes()) {
        throw new InvalidUsageException(
            ErrorId.SELF_SEND,
            "rank %d sends itself %d bytes and receives %d"
                .formatted(spec.rank(), sends.get(w).bytes(), recvs.get(w).bytes()),
            "give matching sends and receives the same count and type");
      }
      pairs.add(sends.get(w));
      pairs.add(recvs.get(w));
    }
    return pairs;
  }

  @Override
  @HotPath
  public void launch(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    HostMemory from = send == null ? null : HostMemory.of(send);
    HostMemory to = recv == null ? null : HostMemory.of(recv);
    HostKernelCommunicator all = root;
    HostStream into = HostStream.of(stream);
    long ticket = all.tickets;
    long before = lastTicket;
    // Before it is in the stream, where it may run at once. Without fences: the queue's own comes
    // between these and the launch.
    LAST_TICKET.setRelease(this, ticket + 1);
    TICKETS.setRelease(all, ticket + 1);
    boolean launched = false;
    try {
      into.add((KernelSerializer.Plan) plan, from, to, ticket);
      launched = true;
    } finally {
      if (!launched) {
        TICKETS.setRelease(all, ticket);
        lastTicket = before;
      }
    }
    into.begin();
  }

  @Override
  public void abort(NcclException cause) {
    waiter.fail(cause);
  }

  @Override
  public NcclException failure() {
    return waiter.failure();
  }

  @Override
  public boolean isIdle() {
    return turns.reached(root == this ? tickets : lastTicket);
  }

  @Override
  public void close() {
    if (remoteSignals != null) {
      remotePuts.close();
      remoteSignals.close();
    }
    if (kernelPuts != null) {
      kernelPuts.close();
    }
    if (root == this) {
      ends.close();
      scratch.close();
      CopyWays.ofProcess().keep();
    } else {
      root.waiter.forget(waiter);
    }
  }
}
