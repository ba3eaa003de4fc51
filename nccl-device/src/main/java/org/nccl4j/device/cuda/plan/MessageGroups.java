package org.nccl4j.device.cuda.plan;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.OptionalLong;
import java.util.TreeMap;
import jcuda.driver.CUdevice_attribute;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.module.MessageKernel;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.operation.Protocol;

/**
 * The sends, receives and copies of one kernel. Works of the same peer and direction form a group,
 * done in order by the group's blocks, one for each channel. Blocks are in order of the distance
 * between the ranks, then of channels, then sends before receives: where not all blocks fit the GPU
 * at once, the first that is not done has its partner at work, however few fit. Other kernels and
 * the partition of a stream's context may leave less room than a GPU has multiprocessors.
 *
 * <p>All sends of a distance come before its receives, which is faster, where a GPU has a
 * multiprocessor for each block and the sends end with no receiver at work, since their data fit
 * the slots.
 */
final class MessageGroups {
  /**
   * Least bytes of a message that a proxy sends from its buffer or receives there. Of fewer, a copy
   * costs less than waiting until they have been sent.
   */
  private static final int LEAST_EXPOSED = 64 << 10;

  private static final int SHARE_MULTIPLE = 128; // Share

  /** Steps that a channel can send before the receiver takes one: a kernel before leaves some. */
  private static final int FREE_STEPS = ConnectionLayout.STEPS - KernelLayout.UNTOLD_STEPS;

  enum Kind {
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
   * @param offerWord the kernel's value for a message with an offer
   * @param signature of the call that it is part of; of no matter for a copy
   */
  record Transfer(
      Place place,
      Place target,
      long bytes,
      Protocol protocol,
      int parts,
      OptionalLong offerWord,
      int signature) {
    boolean isOffered() {
      return offerWord.isPresent();
    }
  }

  private record Key(Kind kind, int peer) {}

  private final PlanContext context;
  private final KernelCommunicatorSpec spec;
  private final NavigableMap<Key, List<Transfer>> groups =
      new TreeMap<>(Comparator.comparingInt(this::order));

  /** None yet. */
  MessageGroups(PlanContext context) {
    this.context = context;
    this.spec = context.spec();
  }

  /** Adds a work behind the others of its group. */
  void add(Kind kind, int peer, Transfer work) {
    groups.computeIfAbsent(new Key(kind, peer), key -> new ArrayList<>()).add(work);
  }

  /** Adds all groups of others, none of which is here. */
  void addAll(MessageGroups others) {
    groups.putAll(others.groups);
  }

  boolean isEmpty() {
    return groups.isEmpty();
  }

  int size() {
    return groups.size();
  }

  /** The works of all groups. */
  int works() {
    return groups.values().stream().mapToInt(List::size).sum();
  }

  /** The sends and the receives of each distance, in order. */
  List<MessageGroups> byDistance() {
    List<MessageGroups> all = new ArrayList<>();
    Key before = null;
    for (Map.Entry<Key, List<Transfer>> group : groups.entrySet()) {
      if (before == null || !isPair(before, group.getKey())) {
        all.add(new MessageGroups(context));
      }
      all.get(all.size() - 1).groups.put(group.getKey(), group.getValue());
      before = group.getKey();
    }
    return all;
  }

  /** Most blocks that they need, as they take turns. */
  int blocks() {
    return byDistance().stream()
        .mapToInt(
            near ->
                near.size()
                    * near.groups.values().stream()
                        .mapToInt(MessageGroups::channels)
                        .max()
                        .orElse(0))
        .sum();
  }

  /** The works whose proxies can use their buffers, in the order of the table. */
  List<ExposedKernelPlan.Carried> carried() {
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
    Connection connection = P2pPlans.connection(spec, key.kind() == Kind.SEND, key.peer());
    return connection.carried() != 0
        && (key.kind() == Kind.SEND ? connection.exposed() : connection.placed()) != null;
  }

  /** The smallest kernel that can do all of them. */
  MessageKernel kernel() {
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
  int threads() {
    if (kernel() == MessageKernel.ANY) {
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

  /** The place of a group among the others. Copies come last. */
  private int order(Key key) {
    return key.kind() == Kind.COPY
        ? 2 * spec.nRanks()
        : P2pPlans.order(spec, key.kind() == Kind.SEND, key.peer());
  }

  /**
   * Writes them as the kernel reads them.
   *
   * @param groupTable place of the table of groups; likewise workTable of works
   * @return the blocks that they need
   */
  int write(ByteBuffer target, int groupTable, int workTable) {
    int blocks = 0;
    int works = 0;
    int at = groupTable;
    boolean fits = areAtWorkAtOnce() && areSendsBuffered();
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
  private boolean areAtWorkAtOnce() {
    return groups.values().stream().mapToInt(MessageGroups::channels).sum()
        <= context.gpu().attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }

  /** True if every send ends although nothing is received meanwhile. */
  private boolean areSendsBuffered() {
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
    Connection connection = P2pPlans.connection(spec, key.kind() == Kind.SEND, key.peer());
    target.putLong(at + KernelLayout.GROUP_DATA, connection.data().address());
    target.putLong(at + KernelLayout.GROUP_CREDIT, connection.credit().address());
    target.putLong(at + KernelLayout.GROUP_STEPS, context.memory().steps(key.peer()));
  }

  private static void putWork(ByteBuffer target, int at, Transfer transfer) {
    target.putLong(at + KernelLayout.WORK_ADDRESS, transfer.place().address());
    target.put(at + KernelLayout.WORK_BASE, (byte) transfer.place().base().ordinal());
    if (transfer.target() != null) {
      target.putLong(at + KernelLayout.WORK_TARGET, transfer.target().address());
      target.put(at + KernelLayout.WORK_TARGET_BASE, (byte) transfer.target().base().ordinal());
    }
    if (transfer.offerWord().isPresent()) {
      target.putLong(at + KernelLayout.WORK_TARGET, transfer.offerWord().getAsLong());
      target.putShort(at + KernelLayout.WORK_OFFERED, (short) 1);
    }
    target.putShort(at + KernelLayout.WORK_SIGNATURE, (short) transfer.signature());
    target.putLong(at + KernelLayout.WORK_BYTES, transfer.bytes());
    target.put(at + KernelLayout.WORK_PROTOCOL, (byte) transfer.protocol().ordinal());
    target.put(at + KernelLayout.WORK_PARTS, (byte) transfer.parts());
  }
}
