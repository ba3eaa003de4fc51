package org.nccl4j.device.host.kernel.algorithm;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * A rank's place in a binomial tree: the rank o places after the root in the ring has a child at o
 * + d for each power of two d below the lowest bit of o, if o + d is less than the number of ranks.
 * So no rank has more messages than a logarithm of the ranks, and none is further from the root.
 * Ranks that are close together in the ring have most edges among themselves.
 *
 * @param ring this rank's place in the ring
 * @param root the rank on top
 */
public record BinomialTree(Ring ring, int root) {
  /** The ranks below this one, those with the most ranks below them first. */
  public List<Integer> children() {
    int place = place();
    int end = place == 0 ? ring.size() : Math.min(ring.size(), place + Integer.lowestOneBit(place));
    List<Integer> children = new ArrayList<>();
    for (int distance = 1; place + distance < end; distance *= 2) {
      children.add(0, ring.ahead(distance));
    }
    return children;
  }

  /** The rank above this one; none of the root. */
  public List<Integer> parent() {
    int place = place();
    int above = place & (place - 1);
    return place == 0 ? List.of() : List.of(ring.ahead(ring.size() + above - place));
  }

  /** How many places this rank is after the root. */
  private int place() {
    return Math.floorMod(ring.place() - Ring.of(ring.order(), root).place(), ring.size());
  }

  /**
   * Broadcast: the root's data down a tree.
   *
   * @param begin of the data in the buffers, in bytes
   */
  record Broadcast(Primitives down, Chunking parts, ExpectedChunks expected, long begin)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean isRoot = down.recvs.length == 0;
      boolean isLeaf = down.sends.length == 0;
      boolean inPlace = isRoot && send.address() == recv.address();
      expected.begin();
      for (boolean more = parts.first(); more; more = parts.next()) {
        if (!isRoot) {
          expected.expect(recv, begin);
        }
        long at = begin + parts.offset(0);
        int bytes = parts.bytes(0);
        if (inPlace) {
          down.send(send, at, bytes);
        } else if (isRoot) {
          down.copySend(send, at, recv, at, bytes);
        } else if (isLeaf) {
          down.recv(recv, at, bytes);
        } else {
          down.recvCopySend(recv, at, bytes);
        }
      }
    }
  }

  /**
   * Reduce: every rank's own data and those of the ranks below it up a tree.
   *
   * @param begin of the data in the buffers, in bytes
   */
  public record Reduce(Primitives up, Chunking parts, long begin) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean isRoot = up.sends.length == 0;
      boolean isLeaf = up.recvs.length == 0;
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = begin + parts.offset(0);
        int bytes = parts.bytes(0);
        if (isRoot) {
          up.recvReduceCopy(send, at, recv, at, bytes);
        } else if (isLeaf) {
          up.send(send, at, bytes);
        } else {
          up.recvReduceSend(send, at, bytes);
        }
      }
    }
  }
}
