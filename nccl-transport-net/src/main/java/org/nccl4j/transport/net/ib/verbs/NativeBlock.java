package org.nccl4j.transport.net.ib.verbs;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.bind.NativeMemory;

/**
 * Zeroed memory outside the heap with a known address, for structures that libibverbs reads or
 * fills and for words that a network adapter writes. Begins at a page. Lives as long as this object
 * is reachable: the code that hands out its address keeps it.
 */
public final class NativeBlock {
  private static final int PAGE = 4096;
  private static final VarHandle LONGS =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private final ByteBuffer bytes;
  private final long address;

  public NativeBlock(int size) {
    ByteBuffer all = ByteBuffer.allocateDirect(size + PAGE);
    long begin = NativeMemory.addressOf(all);
    int skipped = (int) (-begin & PAGE - 1);
    bytes = all.slice(skipped, size).order(ByteOrder.nativeOrder());
    address = begin + skipped;
  }

  public long address() {
    return address;
  }

  public int size() {
    return bytes.capacity();
  }

  public NativeBlock putLong(int offset, long value) {
    bytes.putLong(offset, value);
    return this;
  }

  public NativeBlock putInt(int offset, int value) {
    bytes.putInt(offset, value);
    return this;
  }

  public NativeBlock putShort(int offset, int value) {
    bytes.putShort(offset, (short) value);
    return this;
  }

  public NativeBlock putByte(int offset, int value) {
    bytes.put(offset, (byte) value);
    return this;
  }

  public NativeBlock putBytes(int offset, byte[] value) {
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

  /** Reads a word that the adapter writes; all that it wrote before that word is then seen too. */
  public long getLongAcquire(int offset) {
    return (long) LONGS.getAcquire(bytes, offset);
  }
}
