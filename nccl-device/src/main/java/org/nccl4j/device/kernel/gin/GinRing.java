package org.nccl4j.device.kernel.gin;

import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.Patience;

/**
 * The ring of one device communicator. Kernels fill descriptors: those of a GPU by the header,
 * those of the host by {@link #post}. The thread that gives the proxy its turn reads them, in
 * order, and owns what is not said to be any thread's.
 */
final class GinRing implements RmaSpace.KernelRing {
  private static final long WAIT_NANOS = 10_000;

  private final GinProxy proxy;
  private final long number;
  private final int signals;
  private final int slots;
  private final GinDevice.Shared memory;
  private final NativeWords words;
  private final BooleanSupplier failed;

  /** Descriptors that host kernels have claimed. */
  private final AtomicLong claimed = new AtomicLong();

  /** Written before the memory is freed, after which no thread of the proxy is in a turn. */
  private volatile boolean open = true;

  private long taken;
  private long posted;
  private long flushed;
  private long arrived;

  /** Of each descriptor that has not arrived, by slot: its rank, its way, and its last there. */
  private final int[] toRank;

  private final Way[] ways;

  /** The number of the last message or step, or of the get. */
  private final long[] last;

  /** The descriptor whose messages are being sent. */
  private boolean sending;

  private int rank;
  private int signal;
  private boolean get;
  private long window;
  private long offset;
  private DeviceMemory own;
  private long ownWindow;
  private long ownOffset;
  private long bytes;
  private long sent;

  /** True if a part of the descriptor is sent from the window. */
  private boolean exposed;

  /** The way of a descriptor's data. */
  enum Way {
    COPIED,
    EXPOSED,
    GET
  }

  GinRing(
      GinProxy proxy,
      long number,
      int signals,
      int slots,
      GinDevice.Shared memory,
      BooleanSupplier failed) {
    this.proxy = proxy;
    this.number = number;
    this.signals = signals;
    this.slots = slots;
    this.memory = memory;
    this.words = new NativeWords(memory.host());
    this.failed = failed;
    this.toRank = new int[slots];
    this.ways = new Way[slots];
    this.last = new long[slots];
  }

  long number() {
    return number;
  }

  @Override
  public int signals() {
    return signals;
  }

  @Override
  public int slots() {
    return slots;
  }

  @Override
  public long address() {
    return memory.address();
  }

  @Override
  public long descriptors() {
    return GinLayout.descriptors(signals);
  }

  @Override
  public long bytesOfMemory() {
    return GinLayout.bytes(signals, slots);
  }

  // ---- Host kernels, any thread ----

  @Override
  public boolean post(RmaSpace.KernelPut put, Duration patience) {
    long at = claim(patience);
    if (at < 0) {
      return false;
    }
    long to = descriptor(at);
    words.putInt(to + GinLayout.RANK, put.rank());
    words.putInt(to + GinLayout.SIGNAL, put.signal());
    words.putLong(to + GinLayout.WINDOW, put.window());
    words.putLong(to + GinLayout.OFFSET, put.offset());
    words.putLong(to + GinLayout.SOURCE_WINDOW, put.sourceWindow());
    words.putLong(to + GinLayout.SOURCE_OFFSET, put.sourceOffset());
    words.putLong(to + GinLayout.BYTES, put.bytes());
    words.putLong(to + GinLayout.KIND, put.get() ? GinLayout.GET : GinLayout.PUT);
    store(to + GinLayout.SEQUENCE, at + 1);
    return true;
  }

  /** Claims a place for a descriptor; -1 if the ring stays full. */
  private long claim(Duration patience) {
    long at = claimed.get();
    long endNanos = Patience.end(patience);
    while (!isOver()) {
      if (at - load(GinLayout.TAKEN) >= slots) {
        if (System.nanoTime() - endNanos > 0) {
          return -1;
        }
        Patience.sleep(WAIT_NANOS);
        at = claimed.get();
      } else if (claimed.compareAndSet(at, at + 1)) {
        return at;
      } else {
        at = claimed.get();
      }
    }
    return -1;
  }

  @Override
  public boolean awaitFlushed(Duration patience) {
    return await(GinLayout.FLUSHED, claimed.get(), patience);
  }

  @Override
  public boolean awaitArrived(Duration patience) {
    return await(GinLayout.ARRIVED, claimed.get(), patience);
  }

  private boolean await(long word, long least, Duration patience) {
    long endNanos = Patience.end(patience);
    while (load(word) < least) {
      if (isOver() || System.nanoTime() - endNanos > 0) {
        return load(word) >= least;
      }
      Patience.sleep(WAIT_NANOS);
    }
    return true;
  }

  @Override
  public long signal(int index) {
    return load(GinLayout.SIGNALS + 8L * index);
  }

  @Override
  public long problem() {
    return load(GinLayout.PROBLEM);
  }

  @Override
  public boolean isOver() {
    return !open || failed.getAsBoolean() || load(GinLayout.STATE) != 0;
  }

  /** From now on no kernel waits. Any thread; not after {@link #free}. */
  void stop() {
    store(GinLayout.STATE, 1);
  }

  @Override
  public void close() {
    proxy.close(this);
  }

  /** True until the ring is closed. */
  boolean isOpen() {
    return open;
  }

  void shut() {
    open = false;
  }

  void free() {
    memory.close();
  }

  // ---- The proxy ----

  /** True if a descriptor's messages are being sent, or one has come that can be. */
  boolean hasWork() {
    return sending || taken - arrived < slots && load(descriptor(taken)) != before(taken);
  }

  /** The sequence that a place has before a descriptor's is written. */
  private long before(long at) {
    return at < slots ? 0 : at + 1 - slots;
  }

  boolean isSending() {
    return sending;
  }

  /** Reads the descriptor that has come, and gives its place back. */
  void take(GinChecks checks) {
    long at = descriptor(taken);
    long sequence = load(at);
    rank = words.getInt(at + GinLayout.RANK);
    signal = words.getInt(at + GinLayout.SIGNAL);
    window = words.getLong(at + GinLayout.WINDOW);
    offset = words.getLong(at + GinLayout.OFFSET);
    bytes = words.getLong(at + GinLayout.BYTES);
    ownWindow = words.getLong(at + GinLayout.SOURCE_WINDOW);
    ownOffset = words.getLong(at + GinLayout.SOURCE_OFFSET);
    long kind = words.getLong(at + GinLayout.KIND);
    checks.checkSequence(sequence, taken + 1);
    checks.checkKind(kind, signal, bytes);
    get = kind == GinLayout.GET;
    checks.checkPeer(get, rank, window, offset, bytes);
    if (!get) {
      checks.checkSignal(signal, signals, bytes);
    }
    own = bytes == 0 ? null : checks.own(get, ownWindow, ownOffset, bytes);
    sent = 0;
    exposed = false;
    sending = true;
    taken++;
    store(GinLayout.TAKEN, taken);
  }

  int rank() {
    return rank;
  }

  /** True if the descriptor's data come from the rank. */
  boolean isGet() {
    return get;
  }

  /** The rank's window. */
  long window() {
    return window;
  }

  long offset() {
    return offset + sent;
  }

  /** The memory of this rank's window; null without data. */
  DeviceMemory own() {
    return own;
  }

  long ownWindow() {
    return ownWindow;
  }

  long ownOffset() {
    return ownOffset + sent;
  }

  /** Bytes of the descriptor that are not in messages yet. */
  long left() {
    return bytes - sent;
  }

  /** The signal of a message: one more than its number; 0 for none, and before the last message. */
  int signalOf(long part) {
    return sent + part == bytes ? signal + 1 : 0;
  }

  /**
   * A message has a part of the descriptor.
   *
   * @param number of the message, of the last step behind it, or of the get
   * @return true if it is the last
   */
  boolean sent(long part, long number, Way way) {
    sent += part;
    exposed |= way == Way.EXPOSED;
    if (sent < bytes) {
      return false;
    }
    int slot = (int) ((taken - 1) % slots);
    toRank[slot] = rank;
    ways[slot] = exposed ? Way.EXPOSED : way; // the network may still read an earlier part
    last[slot] = number;
    sending = false;
    own = null;
    return true;
  }

  /** The messages of one more descriptor are published, with what they need in their slots. */
  void posted() {
    posted++;
  }

  /** Counts the descriptors that are done, for kernels; returns how many more are. */
  int countDone(GinPeer[] peers) {
    int done = 0;
    while (flushed < posted && isFlushed((int) (flushed % slots), peers)) {
      flushed++;
      done++;
    }
    if (done > 0) {
      store(GinLayout.FLUSHED, flushed);
    }
    long before = arrived;
    while (arrived < flushed && hasArrived((int) (arrived % slots), peers)) {
      arrived++;
    }
    if (arrived > before) {
      store(GinLayout.ARRIVED, arrived);
    }
    return done + (int) (arrived - before);
  }

  private boolean isFlushed(int slot, GinPeer[] peers) {
    GinPeer peer = peers[toRank[slot]];
    return switch (ways[slot]) {
      case COPIED -> true;
      case EXPOSED -> peer.sent() > last[slot];
      case GET -> peer.answered() > last[slot];
    };
  }

  private boolean hasArrived(int slot, GinPeer[] peers) {
    return ways[slot] == Way.GET || peers[toRank[slot]].acknowledged() > last[slot];
  }

  /** A rank outside the team raises a signal by one. */
  void raise(int index) {
    if (open) {
      long word = GinLayout.SIGNALS + 8L * index;
      store(word, words.getLong(word) + 1);
    }
  }

  private long descriptor(long at) {
    return GinLayout.descriptors(signals) + at % slots * GinLayout.DESCRIPTOR_BYTES;
  }

  /** A word, and all that its writer wrote before it. */
  private long load(long word) {
    long value = words.getLong(word);
    VarHandle.acquireFence();
    return value;
  }

  /** Publishes a word, and all that this thread wrote before it. */
  private void store(long word, long value) {
    VarHandle.releaseFence();
    words.putLong(word, value);
  }
}
