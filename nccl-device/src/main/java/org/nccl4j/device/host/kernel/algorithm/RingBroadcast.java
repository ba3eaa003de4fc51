package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/** Ring broadcast: chunks follow each other from the root to the rank before it. */
public final class RingBroadcast implements Kernel {
  private final Primitives primitives;
  private final Chunking parts;
  private final ExpectedChunks expected;
  private final boolean first;
  private final boolean last;

  /**
   * A kernel.
   *
   * @param parts of all bytes, with one owner
   * @param ahead the same once more
   */
  public RingBroadcast(Ring ring, Primitives primitives, Chunking parts, Chunking ahead, int root) {
    this.primitives = primitives;
    this.parts = parts;
    this.expected = new ExpectedChunks(primitives, ahead);
    this.first = ring.ahead(0) == root;
    this.last = ring.next() == root;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    boolean inPlace = first && send.address() == recv.address();
    expected.begin();
    for (boolean more = parts.first(); more; more = parts.next()) {
      if (!first) {
        expected.expect(recv, 0);
      }
      long at = parts.offset(0);
      int bytes = parts.bytes(0);
      if (first && inPlace) {
        primitives.send(send, at, bytes);
      } else if (first) {
        primitives.copySend(send, at, recv, at, bytes);
      } else if (last) {
        primitives.recv(recv, at, bytes);
      } else {
        primitives.recvCopySend(recv, at, bytes);
      }
    }
  }
}
