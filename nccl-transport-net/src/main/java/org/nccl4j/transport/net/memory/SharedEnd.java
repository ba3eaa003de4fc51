package org.nccl4j.transport.net.memory;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.cuda.memory.RdmaMemory;
import org.nccl4j.device.shm.OwnedFd;

/**
 * The file descriptors with which a rank maps an end's memory of another rank of its host: one of
 * the host's memory, and one of the GPU's memory if slots lie in a GPU.
 *
 * @param fds descriptors, which this owns
 * @param memory sizes, where slots are in a GPU; null where they are not
 * @param words where the end's words begin, from the boundary between the two
 */
public record SharedEnd(List<OwnedFd> fds, RdmaMemory.Shared memory, long words)
    implements AutoCloseable {
  private static final int NOTE_BYTES = 4 * Long.BYTES;

  /** All that is not in the descriptors; the same beside each. */
  public byte[] note() {
    ByteBuffer note = ByteBuffer.allocate(NOTE_BYTES);
    if (memory != null) {
      note.putLong(memory.hostBytes()).putLong(memory.gpuBytes()).putLong(memory.alignment());
      note.putLong(words);
    }
    return note.array();
  }

  /** Returns the number of descriptors. */
  public static int parts(byte[] note) {
    return note.length < NOTE_BYTES || ByteBuffer.wrap(note).getLong() == 0 ? 1 : 2;
  }

  /**
   * Decodes a message that came with descriptors.
   *
   * @param fds in the order of their parts
   */
  public static SharedEnd of(byte[] note, List<OwnedFd> fds) {
    try {
      ByteBuffer in = ByteBuffer.wrap(note);
      RdmaMemory.Shared memory = new RdmaMemory.Shared(in.getLong(), in.getLong(), in.getLong());
      return new SharedEnd(List.copyOf(fds), fds.size() == 1 ? null : memory, in.getLong());
    } catch (BufferUnderflowException e) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "another rank sent a description of shared memory that this rank cannot read",
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  @Override
  public void close() {
    fds.forEach(OwnedFd::close);
  }
}
