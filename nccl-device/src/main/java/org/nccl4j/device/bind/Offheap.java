package org.nccl4j.device.bind;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.function.LongToIntFunction;

/**
 * Memory outside the heap with a known address, for structures that a native library reads or
 * fills, and for words that a network adapter writes. It lives as long as this object is reachable:
 * the code that hands out its address keeps it.
 */
public final class Offheap {
  private static final int PAGE = 4096;

  /** Made at the first use: a process's first communicator on GPUs needs none. */
  private static final class Words {
    static final VarHandle LONG =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
  }

  private final ByteBuffer bytes;
  private final long address;

  /** New and zeroed, aligned to 16 bytes. */
  public Offheap(int size) {
    this(size, 16);
  }

  private Offheap(int size, int alignment) {
    ByteBuffer all = ByteBuffer.allocateDirect(size + alignment);
    long begin = NativeMemory.addressOf(all);
    int skipped = (int) (-begin & alignment - 1);
    bytes = all.slice(skipped, size).order(ByteOrder.nativeOrder());
    address = begin + skipped;
  }

  /** New and zeroed, beginning at a page, as memory that an adapter writes. */
  public static Offheap onPage(int size) {
    return new Offheap(size, PAGE);
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

  public Offheap putShort(int offset, int value) {
    bytes.putShort(offset, (short) value);
    return this;
  }

  public Offheap putByte(int offset, int value) {
    bytes.put(offset, (byte) value);
    return this;
  }

  public Offheap putBytes(int offset, byte[] value) {
    bytes.put(offset, value);
    return this;
  }

  public long getLong(int offset) {
    return bytes.getLong(offset);
  }

  public int getInt(int offset) {
    return bytes.getInt(offset);
  }

  public int getShort(int offset) {
    return bytes.getShort(offset) & 0xffff;
  }

  public int getByte(int offset) {
    return bytes.get(offset) & 0xff;
  }

  public byte[] getBytes(int offset, int length) {
    byte[] copy = new byte[length];
    bytes.get(offset, copy);
    return copy;
  }

  /** Reads a word that an adapter writes; all that it wrote before that word is then seen too. */
  public long getLongAcquire(int offset) {
    return (long) Words.LONG.getAcquire(bytes, offset);
  }

  /** Its length in bytes. */
  public int size() {
    return bytes.capacity();
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
