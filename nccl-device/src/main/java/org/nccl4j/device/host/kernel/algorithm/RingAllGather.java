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

  /** The chunks that are expected, ahead of those that are received. */
  private final Chunking ahead;

  private boolean moreAhead;

  /** The hop by which the next expected chunk comes. */
  private int hopAhead;

  /**
   * A kernel for parts of some bytes.
   *
   * @param parts of one part, with one owner
   * @param ahead the same once more
   */
  public RingAllGather(
      Ring ring, Primitives primitives, Chunking parts, Chunking ahead, long partBytes) {
    this.ring = ring;
    this.primitives = primitives;
    this.parts = parts;
    this.ahead = ahead;
    this.partBytes = partBytes;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    int n = ring.size();
    long own = ring.ahead(0) * partBytes;
    boolean inPlace = send.address() == recv.address() + own;
    moreAhead = n > 1 && ahead.first();
    hopAhead = 1;
    expect(recv);
    for (boolean more = parts.first(); more; more = parts.next()) {
      long at = parts.offset(0);
      int bytes = parts.bytes(0);
      if (inPlace) {
        primitives.send(send, at, bytes);
      } else {
        primitives.copySend(send, at, recv, own + at, bytes);
      }
      for (int hop = 1; hop < n - 1; hop++) {
        expect(recv);
        primitives.recvCopySend(recv, ring.ahead(n - hop) * partBytes + at, bytes);
      }
      expect(recv);
      primitives.recv(recv, ring.ahead(1) * partBytes + at, bytes);
    }
  }

  private void expect(HostMemory recv) {
    while (moreAhead && primitives.mayExpect()) {
      long part = ring.ahead(ring.size() - hopAhead) * partBytes;
      primitives.expect(recv, part + ahead.offset(0), ahead.bytes(0));
      if (++hopAhead == ring.size()) {
        hopAhead = 1;
        moreAhead = ahead.next();
      }
    }
  }
}
