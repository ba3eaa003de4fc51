package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/** Ring reduce-scatter: every part gathers a rank's data at each hop and ends at its owner. */
public final class RingReduceScatter implements Kernel {
  private final Ring ring;
  private final Primitives primitives;
  private final Chunking parts;
  private final long partBytes;

  /**
   * A kernel for parts of some bytes.
   *
   * @param parts of one part, with one owner
   */
  public RingReduceScatter(Ring ring, Primitives primitives, Chunking parts, long partBytes) {
    this.ring = ring;
    this.primitives = primitives;
    this.parts = parts;
    this.partBytes = partBytes;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    int n = ring.size();
    for (boolean more = parts.first(); more; more = parts.next()) {
      long at = parts.offset(0);
      int bytes = parts.bytes(0);
      primitives.send(send, ring.ahead(n - 1) * partBytes + at, bytes);
      for (int hop = 2; hop < n; hop++) {
        primitives.recvReduceSend(send, ring.ahead(n - hop) * partBytes + at, bytes);
      }
      primitives.recvReduceCopy(send, ring.ahead(0) * partBytes + at, recv, at, bytes);
    }
  }
}
