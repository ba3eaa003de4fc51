package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.PlacedSteps;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * The proxy's side of the words by which a kernel and the proxy of a connection between hosts agree
 * that the proxy receives a step's data in the kernel's buffer; the kernel's side are {@link
 * Placements}. They are in the receiving end's data side. Those from 1024 on lie in slots of LL128,
 * which no network carries:
 *
 * <pre>
 *  384  wanted: s + 1 for the last step s that the kernel wants, stored last; of the kernel
 *  448  0 without a proxy that places data, else {@link #ANY} or {@link #REGISTERED} and, from bit 8
 *       on, the least bytes of a step; of the proxy
 * 1024  for each of 16 steps 64 bytes, of the kernel: s + 1, stored last; the address for its data;
 *       their bytes; the number in {@link ExposedMemory} of the buffers, or 0 for the slot
 * 2048  for each of 16 steps 8 bytes, of the proxy: s + 1 once the data of step s are there, before
 *       the tail
 * </pre>
 *
 * <p>A kernel wants at most {@link #AHEAD} steps beyond the current one, so the words of a step are
 * written again only after it was received. A step's number comes once, so nobody takes back a
 * word. A kernel that fails has the proxy end its connection before the buffer is returned.
 */
public final class Placing implements PlacedSteps {
  /** Most steps beyond the current one that a kernel wants: the proxy has begun all before. */
  static final int AHEAD = 8;

  /** The proxy places data in any buffer. */
  static final long ANY = 1;

  /** The proxy places data in memory that its user has registered alone. */
  static final long REGISTERED = 2;

  static final int STEPS = 16;
  static final long WANTED = 384;
  static final long PLACES = 448;
  static final long STEP = 1024;
  static final int ADDRESS = 8;
  static final int BYTES = 16;
  static final int BUFFERS = 24;
  static final long PLACED = 2048;

  /** In place of the number of the buffers: the step's data go to the slot. */
  static final long DECLINED = 0;

  private static final int STEP_BYTES = 64;
  private static final long WAY = 0xff;
  private static final int LEAST_SHIFT = 8;

  private final HostMemory data;
  private final boolean awaited;

  /** The number of the buffers, and these. */
  private long number;

  private HostMemory[] buffers;

  /**
   * The steps of a connection; tells its kernels that data are placed.
   *
   * @param leastBytes of a step whose data are placed
   * @param registered whether only in memory that its user has registered
   * @param awaited whether the sender may wait until it knows where the data of a step go
   */
  public Placing(Connection connection, int leastBytes, boolean registered, boolean awaited) {
    this.awaited = awaited;
    data = HostMemory.of(connection.data());
    long way = registered ? REGISTERED : ANY;
    AtomicWords.storeRelease(data, PLACES, way | (long) leastBytes << LEAST_SHIFT);
  }

  /** Returns the way that a proxy's word tells. */
  @HotPath
  static long way(long word) {
    return word & WAY;
  }

  /** Returns the least bytes that a proxy's word tells. */
  @HotPath
  static int leastBytes(long word) {
    return (int) (word >> LEAST_SHIFT);
  }

  /** Returns the place of a step among those whose words there are. */
  @HotPath
  static int place(long step) {
    return (int) step & STEPS - 1;
  }

  /** Returns the offset of a step's words of the kernel. */
  @HotPath
  static long words(long step) {
    return STEP + (long) place(step) * STEP_BYTES;
  }

  /** Returns the offset of a step's word of the proxy. */
  @HotPath
  static long placedWord(long step) {
    return PLACED + (long) place(step) * Long.BYTES;
  }

  @Override
  @HotPath
  public long wanted() {
    return AtomicWords.loadAcquire(data, WANTED) - 1;
  }

  @Override
  @HotPath
  public boolean isWanted(long step) {
    if (AtomicWords.loadAcquire(data, words(step)) != step + 1) {
      return false;
    }
    long now = word(step, BUFFERS);
    if (now == DECLINED) {
      return false;
    }
    if (now != number) {
      number = now;
      buffers = ExposedMemory.find(now);
    }
    return buffers != null;
  }

  @Override
  public boolean areAwaited() {
    return awaited;
  }

  @Override
  @HotPath
  public boolean isDeclined(long step) {
    return AtomicWords.loadAcquire(data, words(step)) == step + 1
        && word(step, BUFFERS) == DECLINED;
  }

  private long word(long step, int which) {
    long at = words(step) + which;
    return AtomicWords.loadOpaque(data.window(at), data.index(at));
  }

  @Override
  @HotPath
  public DeviceMemory memory(long step) {
    return buffers[place(step)];
  }

  @Override
  @HotPath
  public long address(long step) {
    return word(step, ADDRESS);
  }

  @Override
  @HotPath
  public int bytes(long step) {
    return (int) word(step, BYTES);
  }

  @Override
  @HotPath
  public void placed(long step) {
    AtomicWords.storeRelease(data, placedWord(step), step + 1);
  }
}
