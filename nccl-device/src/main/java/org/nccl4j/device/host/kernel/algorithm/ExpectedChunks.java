package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Chunks that a kernel receives one after the other from one peer and only copies: it says ahead
 * where it wants them. Owned by the thread that runs the communicator's current kernel.
 */
final class ExpectedChunks {
  private final Primitives from;
  private final Chunking chunks;
  private boolean more;

  /**
   * Chunks from a peer.
   *
   * @param from primitives that receive from one peer, and receive nothing else meanwhile
   * @param chunks of the data, with one owner; used by this alone
   */
  ExpectedChunks(Primitives from, Chunking chunks) {
    this.from = from;
    this.chunks = chunks;
  }

  /** Begins a run: all chunks are received. */
  @HotPath
  void begin() {
    more = chunks.first();
  }

  /**
   * Says of the next chunks where they are wanted, as far as that may be said.
   *
   * @param target whose part from an offset on holds the data
   */
  @HotPath
  void expect(HostMemory target, long offset) {
    while (more && from.mayExpect()) {
      from.expect(target, offset + chunks.offset(0), chunks.bytes(0));
      more = chunks.next();
    }
  }
}
