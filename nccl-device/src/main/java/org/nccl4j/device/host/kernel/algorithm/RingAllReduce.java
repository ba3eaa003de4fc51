package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Ring all-reduce. In each loop the ring's n chunks go round twice: first every chunk gathers a
 * rank's data at each hop until it is complete, then it is copied to all.
 */
public final class RingAllReduce implements Kernel {
  private final Ring ring;
  private final Primitives primitives;
  private final Chunking parts;

  public RingAllReduce(Ring ring, Primitives primitives, Chunking parts) {
    this.ring = ring;
    this.primitives = primitives;
    this.parts = parts;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    int n = ring.size();
    for (boolean more = parts.first(); more; more = parts.next()) {
      int chunk = chunkAhead(n - 1);
      primitives.send(send, parts.offset(chunk), parts.bytes(chunk));
      for (int hop = 2; hop < n; hop++) {
        chunk = chunkAhead(n - hop);
        // The result's chunk is free until the complete one comes, after the peer has read this.
        long at = parts.offset(chunk);
        primitives.recvReduceSend(send, at, recv, at, parts.bytes(chunk));
      }
      chunk = chunkAhead(0);
      long offset = parts.offset(chunk);
      primitives.recvReduceCopySend(send, offset, recv, offset, parts.bytes(chunk));
      copyRound(recv, n);
    }
  }

  private void copyRound(HostMemory recv, int n) {
    for (int hop = 1; hop < n - 1; hop++) {
      int chunk = chunkAhead(n - hop);
      primitives.recvCopySend(recv, parts.offset(chunk), parts.bytes(chunk));
    }
    int chunk = chunkAhead(1);
    primitives.recv(recv, parts.offset(chunk), parts.bytes(chunk));
  }

  private int chunkAhead(int places) {
    return (ring.place() + places) % ring.size();
  }
}
