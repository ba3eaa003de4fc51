package org.nccl4j.device.cuda.plan;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.plan.MessageGroups.Base;
import org.nccl4j.device.cuda.plan.MessageGroups.Kind;
import org.nccl4j.device.cuda.plan.MessageGroups.Place;
import org.nccl4j.device.cuda.plan.MessageGroups.Transfer;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Protocol;

/**
 * Turns sends and receives into one kernel, which does them in {@link MessageGroups}. On a small
 * GPU no kernel has more blocks than fit: {@link P2pLaunches}.
 */
public final class P2pPlans {
  private static final int TOGETHER = 2; // blocks of a multiprocessor, as in family.cu
  private static final int LEAST_SIMPLE_PART = 32 << 10;
  private static final int LEAST_LL_PART = 2 << 10;
  private static final int LEAST_LL128_PART = 8 << 10;

  /** Four lines for each channel; see lines.cuh. */
  private static final int LEAST_LL128_SLOT = ConnectionLayout.CHANNELS * 4 * 128;

  private static final int COPY_PARTS = 64;

  /** Most blocks of a kernel: a group's first block has 16 bits. */
  private static final int MOST_BLOCKS = 0xffff;

  private final PlanContext context;
  private final KernelCommunicatorSpec spec;
  private final CommunicatorMemory memory;
  private volatile SymmetricSpace space; // of windows; null before the first
  private volatile boolean exposed; // a kernel may have used buffers itself

  public P2pPlans(PlanContext context) {
    this.context = context;
    this.spec = context.spec();
    this.memory = context.memory();
  }

  /** With one rank every collective is a copy. */
  public CudaPlan prepareAlone(CollectiveWork work) {
    long bytes = work.count() * work.type().bytes();
    P2pWork send = new P2pWork(P2pWork.Kind.SEND, 0, null, 0, bytes, work.protocol());
    P2pWork recv = new P2pWork(P2pWork.Kind.RECV, 0, null, 0, bytes, work.protocol());
    return new SingleRankPlan(
        prepare(List.of(send.onAtMost(work.mostBlocks()), recv.onAtMost(work.mostBlocks()))));
  }

  /** Has messages with an offer go to the receiver's window from now on. */
  public void attach(SymmetricSpace given) {
    space = given;
  }

  /** A kernel is launched that uses buffers itself. */
  void exposes() {
    exposed = true;
  }

  /** True if proxies may use users' buffers. Any thread. */
  public boolean hasExposed() {
    return exposed;
  }

  /** Returns the blocks of these kernels that are at work at once on the idle GPU, at least. */
  public static int room(Gpu gpu) {
    return gpu.room(KernelLayout.SIMPLE_THREADS, TOGETHER);
  }

  /** A kernel that does all of them, or several where the GPU has no room for one. */
  public CudaPlan prepare(List<P2pWork> works) {
    MessageGroups groups = group(works);
    CudaKernelPlan.Needs needs = needs(works);
    int most = Math.min(MOST_BLOCKS, spec.launching().messageBlocks());
    if (groups.blocks() <= most) {
      return kernel(groups, needs);
    }
    List<CudaKernelPlan> kernels = new ArrayList<>();
    MessageGroups next = new MessageGroups(context);
    for (MessageGroups near : groups.byDistance()) {
      if (!next.isEmpty() && next.blocks() + near.blocks() > most) {
        kernels.add(kernel(next, needs));
        next = new MessageGroups(context);
      }
      next.addAll(near);
    }
    kernels.add(kernel(next, needs));
    return kernels.size() == 1
        ? kernels.get(0)
        : new P2pLaunches(context, List.copyOf(kernels), needs);
  }

  /** Plans of sends and receives one after the other, in one launch. */
  public CudaPlan inTurn(List<CudaPlan> plans) {
    return new P2pLaunches(context, plans, P2pLaunches.needs(plans));
  }

  private CudaKernelPlan kernel(MessageGroups groups, CudaKernelPlan.Needs needs) {
    boolean inline =
        groups.size() <= KernelLayout.INLINE_GROUPS && groups.works() <= KernelLayout.INLINE_WORKS;
    Offheap arguments = context.offheap().take(KernelLayout.P2P_BYTES);
    memory.putCommunicator(arguments);
    arguments.putInt(KernelLayout.N_GROUPS, groups.size());
    int blocks;
    PlanTables.Table table = null;
    if (inline) {
      blocks =
          groups.write(
              arguments.bytes(), KernelLayout.INLINE_GROUP_TABLE, KernelLayout.INLINE_WORK_TABLE);
    } else {
      int workTable = groups.size() * KernelLayout.GROUP_BYTES;
      byte[] tables = new byte[workTable + groups.works() * KernelLayout.WORK_SIZE];
      ByteBuffer target = ByteBuffer.wrap(tables).order(ByteOrder.nativeOrder());
      blocks = groups.write(target, 0, workTable);
      table = context.tables().take(tables);
      arguments.putLong(KernelLayout.GROUPS, table.address());
      arguments.putLong(KernelLayout.WORKS, table.address() + workTable);
    }
    long function = blocks == 0 ? 0 : context.kernels().p2p(groups.kernel());
    CudaKernelPlan.Shape shape = new CudaKernelPlan.Shape(blocks, groups.threads(), 1);
    List<ExposedKernelPlan.Carried> carried = groups.carried();
    return carried.isEmpty()
        ? new CudaKernelPlan(context, arguments, table, function, shape, needs)
        : new ExposedKernelPlan(
            this,
            carried,
            arguments,
            table,
            new ExposedKernelPlan.Launch(context, function, shape, needs));
  }

  private MessageGroups group(List<P2pWork> works) {
    MessageGroups groups = new MessageGroups(context);
    List<P2pWork> selfSends = new ArrayList<>();
    List<P2pWork> selfReceives = new ArrayList<>();
    for (P2pWork work : works) {
      boolean send = work.kind() == P2pWork.Kind.SEND;
      if (work.peer() == spec.rank()) {
        (send ? selfSends : selfReceives).add(work);
      } else if (work.bytes() > 0) {
        groups.add(
            send ? Kind.SEND : Kind.RECV,
            work.peer(),
            new Transfer(
                place(work),
                null,
                work.bytes(),
                protocol(work),
                parts(work),
                offerWord(work),
                work.signature()));
      }
    }
    addCopies(groups, selfSends, selfReceives);
    return groups;
  }

  /** Distance from the sender to the receiver, sends before receives. */
  public static int order(KernelCommunicatorSpec spec, boolean sends, int peer) {
    int n = spec.nRanks();
    int distance = sends ? peer - spec.rank() : spec.rank() - peer;
    return 2 * ((distance + n) % n) + (sends ? 0 : 1);
  }

  private void addCopies(MessageGroups groups, List<P2pWork> sends, List<P2pWork> receives) {
    if (sends.size() != receives.size()) {
      throw new InvalidUsageException(
          ErrorId.SELF_SEND,
          "%d sends from rank %d to itself match %d receives"
              .formatted(sends.size(), spec.rank(), receives.size()),
          "put each send to itself and its receive into the same group");
    }
    for (int i = 0; i < sends.size(); i++) {
      P2pWork from = sends.get(i);
      P2pWork to = receives.get(i);
      if (from.bytes() != to.bytes()) {
        throw new InvalidUsageException(
            ErrorId.SELF_SEND,
            "a send of %d bytes to itself matches a receive of %d"
                .formatted(from.bytes(), to.bytes()),
            "use the same count for both");
      }
      Place source = place(from);
      Place target = place(to);
      if (from.bytes() > 0 && !source.equals(target)) {
        groups.add(
            Kind.COPY,
            spec.rank(),
            new Transfer(
                source,
                target,
                from.bytes(),
                Protocol.SIMPLE,
                (int) Math.min(most(from, COPY_PARTS), 1 + from.bytes() / LEAST_SIMPLE_PART),
                OptionalLong.empty(),
                from.signature()));
      }
    }
  }

  private static Place place(P2pWork work) {
    DeviceMemory buffer = work.buffer();
    if (buffer != null) {
      return new Place(buffer.address() + work.offset(), Base.NONE);
    }
    return new Place(work.offset(), work.kind() == P2pWork.Kind.SEND ? Base.SEND : Base.RECV);
  }

  private Protocol protocol(P2pWork work) {
    boolean lines = work.protocol() == Protocol.LL128;
    boolean fits = !lines || spec.layout().ll128SlotBytes() >= LEAST_LL128_SLOT;
    return fits && connection(work).has(work.protocol()) ? work.protocol() : Protocol.SIMPLE;
  }

  private static int most(P2pWork work, int otherwise) {
    return work.mostChannels() == 0 ? otherwise : Math.min(work.mostChannels(), otherwise);
  }

  /** The same at both ends, so it may depend on nothing that is not the same there. */
  private int parts(P2pWork work) {
    int least =
        switch (protocol(work)) {
          case LL -> LEAST_LL_PART;
          case LL128 -> LEAST_LL128_PART;
          case SIMPLE -> LEAST_SIMPLE_PART;
        };
    return parts(work.bytes(), least, most(work, connection(work).channels()));
  }

  private static int parts(long bytes, int least, int channels) {
    return (int) Math.min(channels, (bytes + least - 1) / least);
  }

  /** Returns the channels of a message in LL, at most so many. */
  public static int lineChannels(long bytes, int channels) {
    return parts(bytes, LEAST_LL_PART, channels);
  }

  /**
   * Returns the kernel's value for a message with an offer. At the sender: the receiver's windows
   * if it sees them, or 0. At the receiver: the offer.
   */
  private OptionalLong offerWord(P2pWork work) {
    if (work.offer() == null || protocol(work) == Protocol.LL || connection(work).carried() != 0) {
      return OptionalLong.empty();
    }
    SymmetricSpace windows = space;
    int place = windows == null ? -1 : work.peer() - windows.first();
    boolean near = place >= 0 && place < windows.size();
    if (work.kind() == P2pWork.Kind.SEND) {
      return OptionalLong.of(near ? windows.address() + place * windows.stride() : 0);
    }
    WindowView window = work.offer().window();
    return OptionalLong.of(
        near && window != null
            ? (window.peers().get(0).address() - windows.address())
                + (work.buffer().address() + work.offset() - window.address())
            : KernelLayout.NO_OFFER);
  }

  /** Returns which of the launch's own buffers the works need. */
  public static CudaKernelPlan.Needs needs(List<P2pWork> works) {
    return new CudaKernelPlan.Needs(need(works, P2pWork.Kind.SEND), need(works, P2pWork.Kind.RECV));
  }

  private static long need(List<P2pWork> works, P2pWork.Kind kind) {
    return works.stream()
        .filter(w -> w.kind() == kind && w.buffer() == null)
        .mapToLong(w -> w.offset() + w.bytes())
        .max()
        .orElse(0);
  }

  private Connection connection(P2pWork work) {
    return connection(spec, work.kind() == P2pWork.Kind.SEND, work.peer());
  }

  /** Throws where there is none. */
  public static Connection connection(KernelCommunicatorSpec spec, boolean send, int peer) {
    Connection connection = (send ? spec.sends() : spec.recvs()).get(peer);
    if (connection == null) {
      throw new InvalidUsageException(
          ErrorId.NO_TRANSPORT,
          "rank %d of %s has no connection with rank %d".formatted(spec.rank(), spec.name(), peer),
          "connect the ranks before sends and receives are prepared");
    }
    return connection;
  }
}
