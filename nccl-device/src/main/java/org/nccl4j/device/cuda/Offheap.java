package org.nccl4j.device.cuda;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/** Memory outside the heap with a known address, for structures that the driver reads or fills. */
final class Offheap {
  private final ByteBuffer bytes;
  private final long address;

  /** New and zeroed, aligned to 16 bytes. */
  Offheap(int size) {
    ByteBuffer all = ByteBuffer.allocateDirect(size + 16);
    bytes = all.alignedSlice(16).slice(0, size).order(ByteOrder.nativeOrder());
    address = Pointer.wrap(Runtime.getSystemRuntime(), bytes).address();
  }

  long address() {
    return address;
  }

  Offheap putLong(int offset, long value) {
    bytes.putLong(offset, value);
    return this;
  }

  Offheap putInt(int offset, int value) {
    bytes.putInt(offset, value);
    return this;
  }

  long getLong(int offset) {
    return bytes.getLong(offset);
  }

  int getInt(int offset) {
    return bytes.getInt(offset);
  }

  /** Makes all of it zero. */
  Offheap clear() {
    for (int at = 0; at < bytes.capacity(); at++) {
      bytes.put(at, (byte) 0);
    }
    return this;
  }

  /** All of it, in native byte order. */
  ByteBuffer bytes() {
    return bytes;
  }
}
