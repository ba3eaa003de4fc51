package org.nccl4j.device.bind;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.function.LongToIntFunction;

/** Memory outside the heap with a known address, for structures that the driver reads or fills. */
public final class Offheap {
  private final ByteBuffer bytes;
  private final long address;

  /** New and zeroed, aligned to 16 bytes. */
  public Offheap(int size) {
    ByteBuffer all = ByteBuffer.allocateDirect(size + 16);
    bytes = all.alignedSlice(16).slice(0, size).order(ByteOrder.nativeOrder());
    address = NativeMemory.addressOf(bytes);
  }

  /** A copy of some bytes. */
  public static Offheap of(byte[] contents) {
    Offheap made = new Offheap(contents.length);
    made.bytes.duplicate().put(contents);
    return made;
  }

  /** Returns the address of a direct buffer's next byte. It is valid while the buffer is in use. */
  public static long address(ByteBuffer direct) {
    return NativeMemory.addressOf(direct) + direct.position();
  }

  /** Valid as long as this object is used afterwards; see {@link #lend}. */
  public long address() {
    return address;
  }

  /** Passes the address to a call, during which this memory stays. */
  public int lend(LongToIntFunction call) {
    try {
      return call.applyAsInt(address);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /** The text at its beginning, up to a zero. */
  public String getString() {
    int end = 0;
    while (end < bytes.capacity() && bytes.get(end) != 0) {
      end++;
    }
    byte[] text = new byte[end];
    bytes.get(0, text);
    return new String(text, StandardCharsets.UTF_8);
  }

  public Offheap putLong(int offset, long value) {
    bytes.putLong(offset, value);
    return this;
  }

  public Offheap putInt(int offset, int value) {
    bytes.putInt(offset, value);
    return this;
  }

  public long getLong(int offset) {
    return bytes.getLong(offset);
  }

  public int getInt(int offset) {
    return bytes.getInt(offset);
  }

  /** Makes all of it zero. */
  public Offheap clear() {
    for (int at = 0; at < bytes.capacity(); at++) {
      bytes.put(at, (byte) 0);
    }
    return this;
  }

  /** All of it, in native byte order. */
  public ByteBuffer bytes() {
    return bytes;
  }
}
