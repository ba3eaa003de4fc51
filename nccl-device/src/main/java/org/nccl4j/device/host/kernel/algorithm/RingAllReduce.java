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

  /** The chunks that are expected, ahead of those that are received. */
  private final Chunking ahead;

  private boolean moreAhead;

  /** The hop by which the next expected chunk comes. */
  private int hopAhead;

  /**
   * A kernel.
   *
   * @param parts of all bytes, with an owner for each rank
   * @param ahead the same once more
   */
  public RingAllReduce(Ring ring, Primitives primitives, Chunking parts, Chunking ahead) {
    this.ring = ring;
    this.primitives = primitives;
    this.parts = parts;
    this.ahead = ahead;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    int n = ring.size();
    moreAhead = ahead.first();
    hopAhead = 1;
    expect(recv);
    for (boolean more = parts.first(); more; more = parts.next()) {
      int chunk = chunkAhead(n - 1);
      primitives.send(send, parts.offset(chunk), parts.bytes(chunk));
      for (int hop = 2; hop < n; hop++) {
        chunk = chunkAhead(n - hop);
        // The result's chunk is free until the complete one comes, after the peer has read this.
        long at = parts.offset(chunk);
        expect(recv);
        primitives.recvReduceSend(send, at, recv, at, parts.bytes(chunk));
      }
      chunk = chunkAhead(0);
      long offset = parts.offset(chunk);
      expect(recv);
      primitives.recvReduceCopySend(send, offset, recv, offset, parts.bytes(chunk));
      copyRound(recv, n);
    }
  }

  private void copyRound(HostMemory recv, int n) {
    for (int hop = 1; hop < n - 1; hop++) {
      int chunk = chunkAhead(n - hop);
      expect(recv);
      primitives.recvCopySend(recv, parts.offset(chunk), parts.bytes(chunk));
    }
    int chunk = chunkAhead(1);
    expect(recv);
    primitives.recv(recv, parts.offset(chunk), parts.bytes(chunk));
  }

  /** Of the chunks of a loop, the first that come are combined, and the others complete. */
  private void expect(HostMemory recv) {
    int n = ring.size();
    while (moreAhead && primitives.mayExpect()) {
      boolean complete = hopAhead >= n;
      int chunk = chunkAhead(complete ? 2 * n - 1 - hopAhead : n - 1 - hopAhead);
      primitives.expect(complete ? recv : null, ahead.offset(chunk), ahead.bytes(chunk));
      if (++hopAhead == 2 * n - 1) {
        hopAhead = 1;
        moreAhead = ahead.next();
      }
    }
  }

  private int chunkAhead(int places) {
    return (ring.place() + places) % ring.size();
  }
}
