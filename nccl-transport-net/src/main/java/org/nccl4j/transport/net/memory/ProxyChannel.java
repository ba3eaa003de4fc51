package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.Device;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * A channel of one end of a connection, as a proxy sees it: the words that it shares with a kernel,
 * and the slots, which the network knows.
 */
public final class ProxyChannel implements AutoCloseable {
  private final int number;
  private final int word;
  private final ByteBuffer data;
  private final ByteBuffer credit;
  private final NetMemory[] memories;
  private final long[] offsets;
  private final int slotBytes;
  private final CallNotes notes;

  /**
   * A channel.
   *
   * @param data the data side
   * @param credit the credit side
   * @param memories by slot
   * @param offsets where the channel's part of the slot lies in that
   * @param slotBytes of the part
   * @param notes how its kernel says of which call a step is
   */
  public ProxyChannel(
      int number,
      ByteBuffer data,
      ByteBuffer credit,
      NetMemory[] memories,
      long[] offsets,
      int slotBytes,
      CallNotes notes) {
    this.number = number;
    this.word = ConnectionLayout.word(number);
    this.data = data;
    this.credit = credit;
    this.memories = memories;
    this.offsets = offsets;
    this.slotBytes = slotBytes;
    this.notes = notes;
  }

  /** Returns the channel's number within the connection. */
  public int number() {
    return number;
  }

  /**
   * Returns the number of steps that are filled. Everything written into them before is visible.
   */
  @HotPath
  public long tail() {
    return StepWords.loadAcquire(data, ConnectionLayout.TAIL + word);
  }

  /** Publishes how many steps are filled. */
  @HotPath
  public void setTail(long step) {
    StepWords.storeRelease(data, ConnectionLayout.TAIL + word, step);
  }

  /** Returns the number of steps that are emptied. */
  @HotPath
  public long head() {
    return StepWords.loadAcquire(credit, ConnectionLayout.HEAD + word);
  }

  /** Publishes how many steps are emptied. */
  @HotPath
  public void setHead(long step) {
    StepWords.storeRelease(credit, ConnectionLayout.HEAD + word, step);
  }

  /** Bytes of a filled step. */
  @HotPath
  public int size(long step) {
    return data.getInt(word + (int) ConnectionLayout.size(step));
  }

  /** A note of which call a filled step is. */
  @HotPath
  public int note(long step) {
    return notes.read(data, word, step);
  }

  /** Tells the kernel by a note of which call a step is, before it is told of the step. */
  @HotPath
  public void setNote(long step, int note) {
    notes.write(data, word, step, note);
  }

  /** True if the slots are in a GPU's memory, where the network itself reads and writes them. */
  public boolean isInGpu() {
    return memories[0].memory().device().kind() == Device.Kind.CUDA;
  }

  /** Slots, a power of two. */
  public int slots() {
    return memories.length;
  }

  /** Most bytes of a step. */
  public int slotBytes() {
    return slotBytes;
  }

  /** The slot of a step. */
  @HotPath
  public int slot(long step) {
    return (int) step & (memories.length - 1);
  }

  /** Returns the memory of a step. */
  @HotPath
  public NetMemory memory(long step) {
    return memories[slot(step)];
  }

  /** Returns the offset of a step in its memory. */
  @HotPath
  public long offset(long step) {
    return offsets[slot(step)];
  }

  @Override
  public void close() {
    close(memories);
  }

  /** Has a network forget memories; null ones it never knew. */
  static void close(NetMemory[] memories) {
    for (NetMemory memory : memories) {
      if (memory != null) {
        memory.close();
      }
    }
  }
}
