package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/** Ring reduce: chunks follow each other from the rank after the root to the root. */
public final class RingReduce implements Kernel {
  private final Primitives primitives;
  private final Chunking parts;
  private final boolean first;
  private final boolean last;

  public RingReduce(Ring ring, Primitives primitives, Chunking parts, int root) {
    this.primitives = primitives;
    this.parts = parts;
    this.first = ring.previous() == root;
    this.last = ring.ahead(0) == root;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    for (boolean more = parts.first(); more; more = parts.next()) {
      long at = parts.offset(0);
      int bytes = parts.bytes(0);
      if (first) {
        primitives.send(send, at, bytes);
      } else if (last) {
        primitives.recvReduceCopy(send, at, recv, at, bytes);
      } else {
        primitives.recvReduceSend(send, at, bytes);
      }
    }
  }
}
