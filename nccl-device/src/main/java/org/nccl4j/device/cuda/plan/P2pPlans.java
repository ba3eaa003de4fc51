package org.nccl4j.device.cuda.plan;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.OptionalLong;
import java.util.TreeMap;
import jcuda.driver.CUdevice_attribute;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.module.MessageKernel;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Protocol;

/**
 * Turns sends and receives into one kernel. Works of the same peer and direction form a group, done
 * in order by the group's blocks, one for each channel. Blocks are in order of the distance between
 * the ranks, then of channels, then sends before receives: where not all blocks fit the GPU at
 * once, the first that is not done has its partner at work, however few fit. Other kernels and the
 * partition of a stream's context may leave less room than a GPU has multiprocessors. On a small
 * GPU no kernel has more blocks than fit: {@link P2pLaunches}.
 *
 * <p>All sends of a distance come before its receives, which is faster, where a GPU has a
 * multiprocessor for each block and the sends end with no receiver at work, since their data fit
 * the slots.
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

  /**
   * Least bytes of a message that a proxy sends from its buffer or receives there. Of fewer, a copy
   * costs less than waiting until they have been sent.
   */
  private static final int LEAST_EXPOSED = 64 << 10;

  private static final int SHARE_MULTIPLE = 128; // Share

  /** Steps that a channel can send before the receiver takes one: a kernel before leaves some. */
  private static final int FREE_STEPS = ConnectionLayout.STEPS - KernelLayout.UNTOLD_STEPS;

  private enum Kind {
    SEND,
    RECV,
    COPY
  }

  /** The buffer that an address is an offset in; NONE for an address of its own. */
  enum Base {
    NONE,
    SEND,
    RECV
  }

  /** The place of a work's data. */
  record Place(long address, Base base) {}

  /**
   * A work of the kernel.
   *
   * @param target of a copy
   * @param told what the kernel is told of windows, for a message with an offer
   * @param signature of the call that it is part of; of no matter for a copy
   */
  private record Transfer(
      Place place,
      Place target,
      long bytes,
      Protocol protocol,
      int parts,
      OptionalLong told,
      int signature) {
    boolean isOffered() {
      return told.isPresent();
    }
  }

  private record Key(Kind kind, int peer) {}

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
    NavigableMap<Key, List<Transfer>> groups = group(works);
    CudaKernelPlan.Needs needs = needs(works);
    int most = Math.min(MOST_BLOCKS, spec.launching().messageBlocks());
    if (blocks(groups) <= most) {
      return kernel(groups, needs);
    }
    List<CudaKernelPlan> kernels = new ArrayList<>();
    NavigableMap<Key, List<Transfer>> next = new TreeMap<>(groups.comparator());
    for (NavigableMap<Key, List<Transfer>> near : byDistance(groups)) {
      if (!next.isEmpty() && blocks(next) + blocks(near) > most) {
        kernels.add(kernel(next, needs));
        next = new TreeMap<>(groups.comparator());
      }
      next.putAll(near);
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

  /** The sends and the receives of each distance, in order. */
  private List<NavigableMap<Key, List<Transfer>>> byDistance(
      NavigableMap<Key, List<Transfer>> groups) {
    List<NavigableMap<Key, List<Transfer>>> all = new ArrayList<>();
    Key before = null;
    for (Map.Entry<Key, List<Transfer>> group : groups.entrySet()) {
      if (before == null || !isPair(before, group.getKey())) {
        all.add(new TreeMap<>(groups.comparator()));
      }
      all.get(all.size() - 1).put(group.getKey(), group.getValue());
      before = group.getKey();
    }
    return all;
  }

  /** Most blocks that groups need, as they take turns. */
  private int blocks(NavigableMap<Key, List<Transfer>> groups) {
    return byDistance(groups).stream()
        .mapToInt(
            near ->
                near.size() * near.values().stream().mapToInt(P2pPlans::channels).max().orElse(0))
        .sum();
  }

  private CudaKernelPlan kernel(
      NavigableMap<Key, List<Transfer>> groups, CudaKernelPlan.Needs needs) {
    int nWorks = groups.values().stream().mapToInt(List::size).sum();
    boolean inline =
        groups.size() <= KernelLayout.INLINE_GROUPS && nWorks <= KernelLayout.INLINE_WORKS;
    Offheap arguments = context.offheap().take(KernelLayout.P2P_BYTES);
    memory.putCommunicator(arguments);
    arguments.putInt(KernelLayout.N_GROUPS, groups.size());
    int blocks;
    PlanTables.Table table = null;
    if (inline) {
      blocks =
          put(
              groups,
              arguments.bytes(),
              KernelLayout.INLINE_GROUP_TABLE,
              KernelLayout.INLINE_WORK_TABLE);
    } else {
      int workTable = groups.size() * KernelLayout.GROUP_BYTES;
      byte[] tables = new byte[workTable + nWorks * KernelLayout.WORK_SIZE];
      ByteBuffer target = ByteBuffer.wrap(tables).order(ByteOrder.nativeOrder());
      blocks = put(groups, target, 0, workTable);
      table = context.tables().take(tables);
      arguments.putLong(KernelLayout.GROUPS, table.address());
      arguments.putLong(KernelLayout.WORKS, table.address() + workTable);
    }
    long function = blocks == 0 ? 0 : context.kernels().p2p(kernelOf(groups));
    CudaKernelPlan.Shape shape = new CudaKernelPlan.Shape(blocks, threads(groups), 1);
    List<ExposedKernelPlan.Carried> carried = carried(groups);
    return carried.isEmpty()
        ? new CudaKernelPlan(context, arguments, table, function, shape, needs)
        : new ExposedKernelPlan(
            this,
            carried,
            arguments,
            table,
            new ExposedKernelPlan.Launch(context, function, shape, needs));
  }

  /** Returns the works whose proxies can use their buffers, in the order of the table. */
  private List<ExposedKernelPlan.Carried> carried(NavigableMap<Key, List<Transfer>> groups) {
    List<ExposedKernelPlan.Carried> all = new ArrayList<>();
    int number = 0;
    for (Map.Entry<Key, List<Transfer>> group : groups.entrySet()) {
      boolean uses = usesBuffers(group.getKey());
      for (Transfer transfer : group.getValue()) {
        boolean large = transfer.protocol() == Protocol.SIMPLE && transfer.bytes() >= LEAST_EXPOSED;
        if (uses && large && number < KernelLayout.EXPOSED_WORKS) {
          all.add(new ExposedKernelPlan.Carried(number, transfer.place(), transfer.bytes()));
        }
        number++;
      }
    }
    return List.copyOf(all);
  }

  private boolean usesBuffers(Key key) {
    if (key.kind() == Kind.COPY) {
      return false;
    }
    Connection connection = connection(spec, key.kind() == Kind.SEND, key.peer());
    return connection.carried() != 0
        && (key.kind() == Kind.SEND ? connection.exposed() : connection.placed()) != null;
  }

  private static MessageKernel kernelOf(Map<Key, List<Transfer>> groups) {
    List<Transfer> all = groups.values().stream().flatMap(List::stream).toList();
    if (all.stream().allMatch(t -> t.target() == null && t.protocol() == Protocol.LL)) {
      return MessageKernel.SMALL;
    }
    boolean flagged =
        all.stream()
            .allMatch(
                t -> t.target() != null || (t.protocol() != Protocol.SIMPLE && !t.isOffered()));
    return flagged ? MessageKernel.FLAGGED : MessageKernel.ANY;
  }

  /** All roles where a transfer is Simple; otherwise as many as have a part of a line each. */
  private static int threads(Map<Key, List<Transfer>> groups) {
    if (kernelOf(groups) == MessageKernel.ANY) {
      return KernelLayout.SIMPLE_THREADS;
    }
    long lines = 0;
    for (List<Transfer> transfers : groups.values()) {
      for (Transfer transfer : transfers) {
        if (transfer.protocol() == Protocol.LL128) {
          return KernelLayout.FLAGGED_THREADS;
        }
        lines = Math.max(lines, transfer.bytes() / transfer.parts() / 8);
      }
    }
    return (int) Math.max(64, Math.min(KernelLayout.FLAGGED_THREADS, (lines + 31) / 32 * 32));
  }

  private NavigableMap<Key, List<Transfer>> group(List<P2pWork> works) {
    NavigableMap<Key, List<Transfer>> groups = new TreeMap<>(Comparator.comparingInt(this::order));
    List<P2pWork> selfSends = new ArrayList<>();
    List<P2pWork> selfReceives = new ArrayList<>();
    for (P2pWork work : works) {
      boolean send = work.kind() == P2pWork.Kind.SEND;
      if (work.peer() == spec.rank()) {
        (send ? selfSends : selfReceives).add(work);
      } else if (work.bytes() > 0) {
        groups
            .computeIfAbsent(
                new Key(send ? Kind.SEND : Kind.RECV, work.peer()), k -> new ArrayList<>())
            .add(
                new Transfer(
                    place(work),
                    null,
                    work.bytes(),
                    protocol(work),
                    parts(work),
                    told(work),
                    work.signature()));
      }
    }
    addCopies(groups, selfSends, selfReceives);
    return groups;
  }

  /** Returns the place in the order below. Copies come last. */
  private int order(Key key) {
    return key.kind() == Kind.COPY
        ? 2 * spec.nRanks()
        : order(spec, key.kind() == Kind.SEND, key.peer());
  }

  /** Distance from the sender to the receiver, sends before receives. */
  public static int order(KernelCommunicatorSpec spec, boolean sends, int peer) {
    int n = spec.nRanks();
    int distance = sends ? peer - spec.rank() : spec.rank() - peer;
    return 2 * ((distance + n) % n) + (sends ? 0 : 1);
  }

  private void addCopies(
      Map<Key, List<Transfer>> groups, List<P2pWork> sends, List<P2pWork> receives) {
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
        groups
            .computeIfAbsent(new Key(Kind.COPY, spec.rank()), k -> new ArrayList<>())
            .add(
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
  private OptionalLong told(P2pWork work) {
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

  /** Writes both tables; how many blocks they need. */
  private int put(
      NavigableMap<Key, List<Transfer>> groups, ByteBuffer target, int groupTable, int workTable) {
    int blocks = 0;
    int works = 0;
    int at = groupTable;
    boolean fits = areAtWorkAtOnce(groups) && areSendsBuffered(groups);
    Key before = null;
    int first = 0;
    for (Map.Entry<Key, List<Transfer>> group : groups.entrySet()) {
      int mine = channels(group.getValue());
      boolean second = !fits && before != null && isPair(before, group.getKey());
      boolean shares = second || !fits && isPair(group.getKey(), groups.higherKey(group.getKey()));
      first = second ? first + 1 : blocks;
      blocks = Math.max(blocks, first + (shares ? 2 * mine - 1 : mine));
      before = group.getKey();
      putEnds(target, at, group.getKey());
      target.putShort(at + KernelLayout.GROUP_PEER, (short) group.getKey().peer());
      target.put(at + KernelLayout.GROUP_KIND, (byte) group.getKey().kind().ordinal());
      target.put(at + KernelLayout.GROUP_BLOCK_STEP, (byte) (shares ? 2 : 1));
      target.putShort(at + KernelLayout.GROUP_FIRST_BLOCK, (short) first);
      target.putShort(at + KernelLayout.GROUP_N_BLOCKS, (short) mine);
      target.putInt(at + KernelLayout.GROUP_FIRST_WORK, works);
      target.putInt(at + KernelLayout.GROUP_N_WORKS, group.getValue().size());
      for (Transfer transfer : group.getValue()) {
        putWork(target, workTable + works * KernelLayout.WORK_SIZE, transfer);
        works++;
      }
      at += KernelLayout.GROUP_BYTES;
    }
    return blocks;
  }

  /** True if an otherwise idle GPU has a multiprocessor for each block. */
  private boolean areAtWorkAtOnce(NavigableMap<Key, List<Transfer>> groups) {
    return groups.values().stream().mapToInt(P2pPlans::channels).sum()
        <= context.gpu().attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }

  /** True if every send ends although nothing is received meanwhile. */
  private boolean areSendsBuffered(NavigableMap<Key, List<Transfer>> groups) {
    return groups.entrySet().stream()
        .filter(group -> group.getKey().kind() == Kind.SEND)
        .allMatch(group -> group.getValue().stream().mapToLong(this::steps).sum() <= FREE_STEPS);
  }

  /** Most steps of a channel, through slots: the receiver may have no offer. */
  private long steps(Transfer transfer) {
    long share = (transfer.bytes() + transfer.parts() - 1) / transfer.parts();
    long whole = (share + SHARE_MULTIPLE - 1) / SHARE_MULTIPLE * SHARE_MULTIPLE;
    int slice = ConnectionSizes.messageSliceBytes(spec.layout(), transfer.protocol());
    return (whole + slice - 1) / slice;
  }

  private static int channels(List<Transfer> group) {
    return group.stream().mapToInt(Transfer::parts).max().orElse(0);
  }

  /** True if two groups are the sends and the receives of one distance, which take turns. */
  private boolean isPair(Key first, Key second) {
    return second != null && order(first) / 2 == order(second) / 2;
  }

  private void putEnds(ByteBuffer target, int at, Key key) {
    if (key.kind() == Kind.COPY) {
      return;
    }
    Connection connection = connection(spec, key.kind() == Kind.SEND, key.peer());
    target.putLong(at + KernelLayout.GROUP_DATA, connection.data().address());
    target.putLong(at + KernelLayout.GROUP_CREDIT, connection.credit().address());
    target.putLong(at + KernelLayout.GROUP_STEPS, memory.steps(key.peer()));
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

  private static void putWork(ByteBuffer target, int at, Transfer transfer) {
    target.putLong(at + KernelLayout.WORK_ADDRESS, transfer.place().address());
    target.put(at + KernelLayout.WORK_BASE, (byte) transfer.place().base().ordinal());
    if (transfer.target() != null) {
      target.putLong(at + KernelLayout.WORK_TARGET, transfer.target().address());
      target.put(at + KernelLayout.WORK_TARGET_BASE, (byte) transfer.target().base().ordinal());
    }
    if (transfer.told().isPresent()) {
      target.putLong(at + KernelLayout.WORK_TARGET, transfer.told().getAsLong());
      target.putShort(at + KernelLayout.WORK_OFFERED, (short) 1);
    }
    target.putShort(at + KernelLayout.WORK_SIGNATURE, (short) transfer.signature());
    target.putLong(at + KernelLayout.WORK_BYTES, transfer.bytes());
    target.put(at + KernelLayout.WORK_PROTOCOL, (byte) transfer.protocol().ordinal());
    target.put(at + KernelLayout.WORK_PARTS, (byte) transfer.parts());
  }
}
