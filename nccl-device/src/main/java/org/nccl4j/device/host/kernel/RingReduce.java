package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;

/** Ring reduce: chunks follow each other from the rank after the root to the root. */
final class RingReduce implements Kernel {
  private final Ring ring;
  private final Primitives primitives;
  private final Parts parts;
  private final int root;

  RingReduce(Ring ring, Primitives primitives, Parts parts, int root) {
    this.ring = ring;
    this.primitives = primitives;
    this.parts = parts;
    this.root = root;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    boolean first = ring.previous() == root;
    boolean last = ring.ahead(0) == root;
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
