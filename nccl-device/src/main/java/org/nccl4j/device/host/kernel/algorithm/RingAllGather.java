package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/** Ring all-gather: every rank's part goes round once. */
public final class RingAllGather implements Kernel {
  private final Ring ring;
  private final Primitives primitives;
  private final Chunking parts;
  private final long partBytes;

  /**
   * A kernel for parts of some bytes.
   *
   * @param parts of one part, with one owner
   */
  public RingAllGather(Ring ring, Primitives primitives, Chunking parts, long partBytes) {
    this.ring = ring;
    this.primitives = primitives;
    this.parts = parts;
    this.partBytes = partBytes;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    int n = ring.size();
    long own = ring.ahead(0) * partBytes;
    boolean inPlace = send.address() == recv.address() + own;
    for (boolean more = parts.first(); more; more = parts.next()) {
      long at = parts.offset(0);
      int bytes = parts.bytes(0);
      if (inPlace) {
        primitives.send(send, at, bytes);
      } else {
        primitives.copySend(send, at, recv, own + at, bytes);
      }
      for (int hop = 1; hop < n - 1; hop++) {
        primitives.recvCopySend(recv, ring.ahead(n - hop) * partBytes + at, bytes);
      }
      primitives.recv(recv, ring.ahead(1) * partBytes + at, bytes);
    }
  }
}
