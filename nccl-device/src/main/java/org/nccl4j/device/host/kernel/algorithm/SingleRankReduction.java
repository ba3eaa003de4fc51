package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;

/** A reduction of one rank: its own elements, as they enter the combination. */
public record SingleRankReduction(Reduction reduction, int elementBytes, long bytes)
    implements Kernel {
  private static final long PIECE_BYTES = 1 << 20;

  @Override
  public void run(HostMemory send, HostMemory recv) {
    for (long at = 0; at < bytes; at += PIECE_BYTES) {
      int some = (int) (Math.min(PIECE_BYTES, bytes - at) / elementBytes);
      reduction.prepare(send, at, recv, at, some);
    }
  }
}
