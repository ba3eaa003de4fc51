package org.nccl4j.device.bind;

import java.nio.ByteBuffer;

/** Memory at an address, accessed by offset. It does not keep the memory. Any thread. */
public final class NativeWords {
  private static final byte[] CLEARED = new byte[4096];

  private final long address;

  public NativeWords(long address) {
    this.address = address;
  }

  public int getInt(long offset) {
    return NativeMemory.getInt(address + offset);
  }

  public long getLong(long offset) {
    return NativeMemory.getLong(address + offset);
  }

  public void putInt(long offset, int value) {
    NativeMemory.putInt(address + offset, value);
  }

  public void putLong(long offset, long value) {
    NativeMemory.putLong(address + offset, value);
  }

  /** Stores all bytes of an array. */
  public void put(long offset, byte[] bytes) {
    view(offset, bytes.length).put(bytes);
  }

  /** Reads an array full of bytes. */
  public void get(long offset, byte[] bytes) {
    view(offset, bytes.length).get(bytes);
  }

  /** Makes the first bytes zero. */
  public void clear(long bytes) {
    for (long at = 0; at < bytes; at += CLEARED.length) {
      view(at, (int) Math.min(bytes - at, CLEARED.length))
          .put(CLEARED, 0, (int) Math.min(bytes - at, CLEARED.length));
    }
  }

  private ByteBuffer view(long offset, int bytes) {
    return NativeMemory.buffer(address + offset, bytes);
  }
}
