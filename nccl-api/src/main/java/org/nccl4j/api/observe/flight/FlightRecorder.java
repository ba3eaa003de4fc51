package org.nccl4j.api.observe.flight;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.os.ThisProcess;

/**
 * The flight recorder of one rank of a communicator; see the package's description for where things
 * lie. Consecutive operations of one shape and count are one run, so recording one more of them is
 * one store: the number of operations. Operations do not store their end: the observer's thread
 * polls for it.
 *
 * <p>Owner of {@code collective} and {@code other}: the thread that launches, one at a time; of the
 * rest: any.
 */
public final class FlightRecorder {
  static final int IN_USE = 0;
  static final int RANK = 4;
  static final int RANKS = 8;
  static final int WAITS_FOR = 12;
  static final int COMMUNICATOR = 16;
  static final int LAUNCHED = 24;
  static final int ENDED = 32;
  static final int GREW = 40;
  static final int OBSERVED = 48;
  static final int FAILED = 56;
  static final int NAME = 64;
  static final int NAME_BYTES = 124;
  static final int FRONT = 192;
  static final int FRONT_STREAM = 200;
  static final int FRONT_SINCE = 208;
  static final int UP_TO = 216;
  static final int OTHERS = 224;
  static final int FRONT_NUMBER = 232;
  static final int RING = 256;
  static final int RUNS = 128;
  static final int DEVICE = 6016;
  static final int DEVICE_BYTES = 32;
  static final int REPLAYED = 6048;

  /** Size of a run: its shape, count, and the number of its first operation. */
  static final int RUN_BYTES = 24;

  /** The most operations that are read one by one. */
  static final int ENTRIES = 128;

  /** Bit of shapes that only some ranks call. */
  private static final long OF_SOME = 1L << 48;

  /** The shape of what is launched and is no operation that a user calls. */
  public static final long UNNAMED = 63L << CallShape.OPERATION_SHIFT | OF_SOME;

  /** Shape that no operation has and that only some ranks call. */
  private static final long NO_SHAPE = -1;

  private static final VarHandle LONGS =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  /** The order of this process's calls in all communicators that compare theirs. */
  private static final AtomicLong CALLS = new AtomicLong();

  private static final FlightRecorder UNREAD = new FlightRecorder(null, FlightFile.apart(), 0);

  private static final VarHandle ELEMENTS = MethodHandles.arrayElementVarHandle(long[].class);

  /** Words around the counts of sends and receives. */
  private static final int MARGIN = 16;

  private final FlightFile file;
  private final FlightFile.Slot slot;
  private final ByteBuffer bytes;

  /**
   * Sends to each rank and receives from each, in turn, with room around them, so that no cache
   * line has a rank's and another's.
   */
  private final long[] singles;

  private final int nRanks;
  private volatile boolean closed;

  /** Calls that not all ranks have reached: see {@link #waitsInOrder}. Guarded by itself. */
  private final Deque<long[]> waiting = new ArrayDeque<>();

  /** The number of such calls of this communicator. Guarded by the same. */
  private long compared;

  /**
   * Operations that have ended as far as such calls tell, which may be more than is known of GPUs.
   */
  private volatile long reached;

  private final LinkRecord links;

  private FlightRecorder(FlightFile file, FlightFile.Slot slot, int nRanks) {
    this.nRanks = nRanks;
    this.singles = new long[MARGIN + 2 * nRanks + MARGIN];
    this.file = file;
    this.slot = slot;
    this.bytes = slot.bytes();
    this.links = new LinkRecord(bytes);
    bytes.putLong(RING, NO_SHAPE);
  }

  /** A recorder that is never read, for launches before there is another. */
  public static FlightRecorder unread() {
    return UNREAD;
  }

  /**
   * Rank that records.
   *
   * @param communicator a number that its ranks have in common, and no other communicator has
   * @param operations names by number
   * @param device as in a {@link RankReport}
   */
  public record Rank(
      String name,
      long communicator,
      int rank,
      int nRanks,
      List<String> operations,
      String device) {}

  /** A new recorder. */
  public static FlightRecorder open(Rank rank) {
    FlightFile file = FlightFile.open(rank.operations());
    FlightRecorder log = new FlightRecorder(file, file.take(), rank.nRanks());
    ByteBuffer bytes = log.bytes;
    bytes.putInt(RANK, rank.rank()).putInt(RANKS, rank.nRanks()).putInt(WAITS_FOR, -1);
    bytes.putLong(COMMUNICATOR, rank.communicator());
    long now = System.currentTimeMillis();
    bytes.putLong(GREW, now).putLong(OBSERVED, now);
    byte[] letters = rank.name().getBytes(StandardCharsets.UTF_8);
    letters = Arrays.copyOfRange(letters, Math.max(0, letters.length - NAME_BYTES), letters.length);
    bytes.putInt(NAME, letters.length).put(NAME + 4, letters);
    byte[] device = rank.device().getBytes(StandardCharsets.UTF_8);
    bytes.put(DEVICE, Arrays.copyOf(device, DEVICE_BYTES));
    bytes.putInt(IN_USE, 1);
    return log;
  }

  /** An operation that all ranks call has been launched. */
  @HotPath
  public void collective(long shape, long count) {
    record(shape, count);
  }

  /** Anything else has been launched. */
  @HotPath
  public void other(long shape, long count) {
    bytes.putLong(OTHERS, bytes.getLong(OTHERS) + 1);
    // A reader of the launch sees that it is not a collective.
    VarHandle.storeStoreFence();
    record(shape | OF_SOME, count);
  }

  /** A send to a rank, or a receive from it, has been launched, perhaps with others at once. */
  @HotPath
  public void single(boolean sends, int peer) {
    if (peer < nRanks) {
      int at = MARGIN + 2 * peer + (sends ? 0 : 1);
      ELEMENTS.setOpaque(singles, at, singles[at] + 1);
    }
  }

  /**
   * Counts in the slot alone: this object may share a cache line with what another rank's thread
   * writes, the slot does not.
   */
  @HotPath
  private void record(long shape, long count) {
    long before = bytes.getLong(LAUNCHED);
    int run = run(before);
    if (bytes.getLong(run) == shape && bytes.getLong(run + 8) == count) {
      bytes.putLong(LAUNCHED, before + RUNS);
    } else {
      begin(before, shape, count);
    }
  }

  /** Another run; its words are there before the one that has it read. */
  @HotPath
  private void begin(long before, long shape, long count) {
    long after = before + RUNS & -RUNS | before + 1 & RUNS - 1;
    int run = run(after);
    bytes.putLong(run, shape);
    bytes.putLong(run + 8, count);
    bytes.putLong(run + 16, launched(after));
    VarHandle.releaseFence();
    bytes.putLong(LAUNCHED, after);
  }

  /** Returns the offset of the last run, from the word at LAUNCHED. */
  private static int run(long launchedAndRun) {
    return RING + ((int) launchedAndRun & RUNS - 1) * RUN_BYTES;
  }

  /** Returns the number of operations, from the word at LAUNCHED. */
  static long launched(long launchedAndRun) {
    return launchedAndRun / RUNS;
  }

  static boolean isCollective(long shape) {
    return (shape & OF_SOME) == 0;
  }

  /** The shape of the call that was recorded as this one. */
  static long ofCall(long recorded) {
    return recorded & ~OF_SOME;
  }

  /**
   * Takes down how far the kernels are; now and then. After a failure it keeps what was under way:
   * operations that fail count as ended soon after.
   */
  public synchronized void observe(KernelCommunicator kernels, long nowMillis) {
    if (closed) {
      return;
    }
    long counted = kernels.ended(); // before the failure, which is there before its end is counted
    if (kernels.failure() != null) {
      bytes.putInt(FAILED, 1);
      return;
    }
    long ended = Math.max(Math.max(counted, reached), bytes.getLong(ENDED));
    bytes.putLong(UP_TO, ended > counted ? ended + 1 : kernels.firstNotEnded());
    boolean isIdle = ended == launchedSoFar();
    if (isIdle || ended != bytes.getLong(ENDED)) {
      bytes.putLong(ENDED, ended);
      bytes.putLong(GREW, nowMillis);
    }
    bytes.putInt(WAITS_FOR, isIdle ? -1 : kernels.waitsFor());
    bytes.putLong(OBSERVED, nowMillis);
  }

  /** Takes down the state of the rank's links; now and then. */
  public synchronized void observe(List<? extends Link> all, KernelCommunicator kernels) {
    if (!closed) {
      links.take(all, kernels);
    }
  }

  /**
   * Takes down which links have data under way; at each look.
   *
   * @param millis since the last look
   * @param works whether an operation that uses the links is under way; without one nobody finds
   *     out that data have arrived
   */
  public synchronized void observeFlows(long millis, boolean works) {
    if (!closed) {
      links.look(millis, works);
    }
  }

  /** Takes down what launches of graphs have repeated so far. */
  public synchronized void observe(RankReport.Replays replays) {
    if (!closed) {
      bytes.putLong(REPLAYED, replays.operations());
      bytes.putLong(REPLAYED + 8, replays.bytes());
      bytes.putLong(REPLAYED + 16, replays.busBytes());
    }
  }

  /** True if there are links that have moved data. */
  public boolean hasFlows() {
    return links.hasFlows();
  }

  /**
   * Records that the next launch waits in a stream until all ranks have reached it. Operations of a
   * communicator run in the order of their launches. Once this launch has ended, all launches
   * before it have ended.
   */
  public void waitsInOrder(long stream, long nowMillis) {
    synchronized (waiting) {
      waiting.add(new long[] {CALLS.incrementAndGet(), stream, launchedSoFar() + 1, ++compared});
      if (waiting.size() == 1) {
        putFront(nowMillis);
      }
    }
  }

  /** The oldest of these calls waits no more. */
  public void metInOrder(long nowMillis) {
    synchronized (waiting) {
      long[] met = waiting.poll();
      reached = met == null ? reached : met[2];
      putFront(nowMillis);
    }
  }

  private void putFront(long nowMillis) {
    if (!closed) {
      long[] front = waiting.peek();
      bytes.putLong(FRONT_SINCE, nowMillis).putLong(FRONT_STREAM, front == null ? 0 : front[1]);
      bytes.putLong(FRONT_NUMBER, front == null ? 0 : front[3]);
      LONGS.setRelease(bytes, FRONT, front == null ? 0 : front[0]);
    }
  }

  /** True if a call waits so. */
  public boolean hasFront() {
    synchronized (waiting) {
      return !waiting.isEmpty();
    }
  }

  /** Returns the recorder's current report. */
  public RankReport report(List<String> operations) {
    return FlightReader.rank(
        new RankReport.ProcessReport("", ThisProcess.pid(), ""),
        operations.toArray(String[]::new),
        bytes);
  }

  /** Operations launched so far, as far as the caller can see. */
  public long launchedSoFar() {
    return launched((long) LONGS.getAcquire(bytes, LAUNCHED));
  }

  /** Collectives launched so far, as far as the caller can see. */
  public long collectives() {
    long launched = launchedSoFar();
    return launched - bytes.getLong(OTHERS);
  }

  /** Sends to a rank launched so far, or receives from it. */
  public long singles(boolean sends, int peer) {
    return (long) ELEMENTS.getOpaque(singles, MARGIN + 2 * peer + (sends ? 0 : 1));
  }

  /** Receives operations of one shape and count. */
  public interface OperationVisitor {
    /**
     * Takes some of them.
     *
     * @param number of operations
     */
    void visit(long shape, long count, long number);
  }

  /** Visits the operations on record with numbers above one and up to another. */
  public void visit(long above, long upTo, OperationVisitor visitor) {
    new RunReader(bytes, (long) LONGS.getAcquire(bytes, LAUNCHED), new String[0])
        .visit(above, upTo, visitor);
  }

  /** Operations that have ended, as far as was observed last. */
  public long ended() {
    return bytes.getLong(ENDED);
  }

  /** The rank that is waited for, as far as was observed last; -1 if none is. */
  public int waitsFor() {
    return bytes.getInt(WAITS_FOR);
  }

  /** True if something that was launched has not ended, as far as was observed last. */
  public boolean isUnderWay() {
    return bytes.getLong(ENDED) < launchedSoFar();
  }

  /** Ends recording. */
  public synchronized void close() {
    synchronized (waiting) {
      if (!closed) {
        closed = true;
        file.give(slot);
      }
    }
  }
}
