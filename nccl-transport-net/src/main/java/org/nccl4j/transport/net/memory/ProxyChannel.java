package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.Device;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.support.CloseAll;

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

  /** Null where LL is not carried. */
  private final GpuLineSlots lines;

  /** Most bytes of a step in Simple that is padded; 0 if none is. */
  private final int mostPadded;

  /**
   * A channel of a GPU that carries Simple alone.
   *
   * @param mostPadded as below
   */
  public ProxyChannel(
      int number,
      ByteBuffer data,
      ByteBuffer credit,
      NetMemory[] memories,
      long[] offsets,
      int slotBytes,
      int mostPadded) {
    this(number, data, credit, memories, offsets, slotBytes, CallNotes.GPU, null, mostPadded);
  }

  /**
   * A channel.
   *
   * @param data the data side
   * @param credit the credit side
   * @param memories by slot
   * @param offsets where the channel's part of the slot lies in that
   * @param slotBytes of the part
   * @param notes how its kernel says of which call a step is
   * @param lines its LL slots; null where LL is not carried
   * @param mostPadded most bytes of a step in Simple that is padded ({@link LineMark#mostPadded})
   */
  ProxyChannel(
      int number,
      ByteBuffer data,
      ByteBuffer credit,
      NetMemory[] memories,
      long[] offsets,
      int slotBytes,
      CallNotes notes,
      GpuLineSlots lines,
      int mostPadded) {
    this.number = number;
    this.word = ConnectionLayout.word(number);
    this.data = data;
    this.credit = credit;
    this.memories = memories;
    this.offsets = offsets;
    this.slotBytes = slotBytes;
    this.notes = notes;
    this.lines = lines;
    this.mostPadded = mostPadded;
  }

  /** The data side, at its beginning. */
  ByteBuffer data() {
    return data;
  }

  /** The credit side, likewise. */
  ByteBuffer credit() {
    return credit;
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

  /** True if a step is filled, or its kernel is filling it with lines. */
  @HotPath
  public boolean isBegun(long step) {
    return hasLines(step) || tail() > step;
  }

  /** True if a step that the kernel has begun is in LL. */
  @HotPath
  public boolean hasLines(long step) {
    return lines != null && (sizeWord(step) & ConnectionLayout.LINES) != 0;
  }

  /** Packs what has come of a step in LL; returns whether that is all, so that it can be sent. */
  @HotPath
  public boolean pack(long step) {
    return lines.pack(step, sizeWord(step));
  }

  /**
   * True if a message that has come holds the lines of a step.
   *
   * @param note the last that came with a message
   */
  @HotPath
  public boolean holdsLines(int note, int messageBytes) {
    return lines == null ? note == CallNotes.LINES : lines.hold(note, messageBytes);
  }

  /**
   * True if the message of so many bytes in Simple is sent from its slot with a byte more, since
   * its size would say that it holds lines.
   */
  @HotPath
  public boolean pads(int bytes) {
    return bytes <= mostPadded && LineMark.isOfLines(bytes, mostPadded - 1);
  }

  /** Stores the lines of a step whose message has come, before the kernel is told of the step. */
  @HotPath
  public void unpack(long step, int messageBytes) {
    if (lines == null) {
      throw new InternalErrorException(
          "a step of channel %d came in LL, which this end does not carry".formatted(number),
          "report this");
    }
    lines.unpack(step, messageBytes);
  }

  /** The kernel, or the network, has taken what was in a step's slots, before they are filled. */
  @HotPath
  public void emptied(long step) {
    if (lines != null) {
      lines.emptied(step);
    }
    if (hasLines(step)) {
      StepWords.storeInt(data, word + ConnectionLayout.size(step), 0);
    }
  }

  private int sizeWord(long step) {
    return StepWords.loadInt(data, word + ConnectionLayout.size(step));
  }

  /** Bytes of a filled step's message. */
  @HotPath
  public int size(long step) {
    int size = sizeWord(step);
    if (lines != null && (size & ConnectionLayout.LINES) != 0) {
      return lines.bytes(size);
    }
    return size < 0 ? ~size : padded(size); // a step that is exposed has the complement
  }

  /** Bytes of the message of so many bytes in Simple from a slot. */
  @HotPath
  public int padded(int bytes) {
    return pads(bytes) ? bytes + 1 : bytes;
  }

  /** A note of which call a filled step is, or that it is in LL. */
  @HotPath
  public int note(long step) {
    return hasLines(step) ? CallNotes.LINES : notes.read(data, word, step);
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
    CloseAll all = new CloseAll();
    for (NetMemory memory : memories) {
      if (memory != null) {
        all.take(memory::close);
      }
    }
    all.end();
  }
}
