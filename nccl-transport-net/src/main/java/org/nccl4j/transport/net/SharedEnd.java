package org.nccl4j.transport.net;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.cuda.RdmaMemory;
import org.nccl4j.device.shm.OwnedFd;

/**
 * By what a rank maps an end's memory that lies with another rank of its host: of the host alone,
 * by one file descriptor, or with slots in a GPU, by one of the host's part and one of the GPU's.
 *
 * @param fds descriptors, which this owns
 * @param memory sizes, where slots are in a GPU; null where they are not
 * @param words where the end's words begin, from the boundary between the two
 */
record SharedEnd(List<OwnedFd> fds, RdmaMemory.Shared memory, long words) implements AutoCloseable {
  private static final int KEY_BYTES = 2 * Integer.BYTES + 4 * Long.BYTES;

  /** Which descriptor of which request this is, with all that is not in the descriptors. */
  byte[] key(int request, int part) {
    ByteBuffer key = ByteBuffer.allocate(KEY_BYTES).putInt(request).putInt(part);
    if (memory != null) {
      key.putLong(memory.hostBytes()).putLong(memory.gpuBytes()).putLong(memory.alignment());
      key.putLong(words);
    }
    return key.array();
  }

  /** The request of a key; -1 if it is none. */
  static int request(byte[] key) {
    return key.length == KEY_BYTES ? ByteBuffer.wrap(key).getInt() : -1;
  }

  /** The part of a key. */
  static int part(byte[] key) {
    return ByteBuffer.wrap(key).getInt(Integer.BYTES);
  }

  /** How many descriptors there are, as any of the keys tells. */
  static int parts(byte[] key) {
    return ByteBuffer.wrap(key).getLong(2 * Integer.BYTES) == 0 ? 1 : 2;
  }

  /**
   * What came, by the key of one of the descriptors.
   *
   * @param fds in the order of their parts
   */
  static SharedEnd of(byte[] key, List<OwnedFd> fds) {
    try {
      ByteBuffer in = ByteBuffer.wrap(key).position(2 * Integer.BYTES);
      RdmaMemory.Shared memory = new RdmaMemory.Shared(in.getLong(), in.getLong(), in.getLong());
      return new SharedEnd(List.copyOf(fds), fds.size() == 1 ? null : memory, in.getLong());
    } catch (BufferUnderflowException e) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "another rank shares memory in a way that is not understood",
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  @Override
  public void close() {
    fds.forEach(OwnedFd::close);
  }
}
