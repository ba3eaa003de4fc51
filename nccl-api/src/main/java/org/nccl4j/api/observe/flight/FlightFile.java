package org.nccl4j.api.observe.flight;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.os.WholeFile;
import org.nccl4j.device.shm.SharedSegment;

/**
 * This process's flight recorder: one segment of shared memory with a slot for each communicator's
 * rank. Without such memory, or without a free slot, a rank records into private memory, which only
 * this process can read. Any thread.
 */
public final class FlightFile {
  static final long MAGIC = 0x6e63636c346a4652L;
  static final int VERSION = 5;
  static final int PAGE = 6 << 10;
  static final int SLOTS = 256;
  static final int PID = 16;
  static final int HOST = 64;
  static final int NAMES = 128;

  private static final System.Logger LOG = DebugLog.of("RAS");

  /** Recorders keep it, so that its class can be unloaded after the last of them. */
  private static WeakReference<FlightFile> ours = new WeakReference<>(null);

  /** Keeps the memory mapped; null where it is not shared. */
  @SuppressWarnings("unused")
  private final SharedSegment segment;

  private final ByteBuffer bytes;
  private final BitSet taken = new BitSet(SLOTS);

  private FlightFile(SharedSegment segment, ByteBuffer bytes) {
    this.segment = segment;
    this.bytes = bytes;
  }

  /**
   * The process's recorder, created at the first call, and again after its last user has ended.
   *
   * @param operations names by number
   */
  public static synchronized FlightFile open(List<String> operations) {
    FlightFile file = ours.get();
    if (file == null) {
      file = create();
      file.describe(operations);
      ours = new WeakReference<>(file);
    }
    return file;
  }

  private static FlightFile create() {
    int size = (1 + SLOTS) * PAGE;
    try {
      SharedSegment segment = SharedSegment.create(size);
      return new FlightFile(segment, segment.buffer().order(ByteOrder.nativeOrder()));
    } catch (NcclException e) {
      LOG.log(
          Level.INFO, "the flight recorder cannot be read from other processes: {0}", e.problem());
      return new FlightFile(null, ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder()));
    }
  }

  private void describe(List<String> operations) {
    bytes.putLong(0, MAGIC).putInt(8, VERSION).putLong(PID, ThisProcess.pid());
    bytes.putLong(24, System.currentTimeMillis());
    put(HOST, DebugLog.hostName(), 63);
    put(NAMES, String.join(" ", operations), PAGE - NAMES - 1);
  }

  private void put(int at, String text, int most) {
    byte[] letters = text.getBytes(StandardCharsets.UTF_8);
    bytes.put(at, letters, 0, Math.min(letters.length, most));
  }

  /** A slot of zeros; of other memory if none is free. */
  synchronized Slot take() {
    int slot = taken.nextClearBit(0);
    if (slot >= SLOTS) {
      return apart();
    }
    taken.set(slot);
    bytes.put((1 + slot) * PAGE, new byte[PAGE]);
    return new Slot(bytes.slice((1 + slot) * PAGE, PAGE).order(ByteOrder.nativeOrder()), slot);
  }

  /** A slot that only its owner reads. */
  static Slot apart() {
    return new Slot(ByteBuffer.allocateDirect(PAGE).order(ByteOrder.nativeOrder()), -1);
  }

  synchronized void give(Slot slot) {
    slot.bytes.putInt(0, 0);
    if (slot.number >= 0) {
      taken.clear(slot.number);
    }
  }

  /** All of it, as it is now. */
  ByteBuffer copy() {
    byte[] all = new byte[bytes.capacity()];
    bytes.get(0, all);
    return ByteBuffer.wrap(all).order(ByteOrder.nativeOrder());
  }

  /**
   * Writes all of it, one caller at a time; a failure is logged. Ranks of the failed communicator
   * that have failed and closed are in the file too.
   */
  public synchronized void save(String name, long failedCommunicator) {
    Path file = DebugLog.expand(name);
    ByteBuffer all = copy();
    for (int page = PAGE; page < all.capacity(); page += PAGE) {
      if (all.getLong(page + FlightRecorder.COMMUNICATOR) == failedCommunicator
          && all.getInt(page + FlightRecorder.FAILED) != 0) {
        all.putInt(page + FlightRecorder.IN_USE, 1);
      }
    }
    try {
      WholeFile.write(file, all.array());
    } catch (IOException e) {
      LOG.log(
          Level.WARNING,
          "the flight recorder cannot be written to {0}: {1}",
          file,
          IoErrorText.of(e));
    }
  }

  /** A page of a communicator's rank. */
  record Slot(ByteBuffer bytes, int number) {}
}
