package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;

/**
 * A rank's place in exchanges with partners at distances 1, 2, 4, ...: as many ranks as the
 * greatest power of two take part, in the order of their numbers. Of the others, each leaves its
 * work to the rank before it: among the first ranks every other one.
 *
 * @param rank this rank
 * @param nRanks all ranks, at least 2
 */
public record Doubling(int rank, int nRanks) {
  /** The number of ranks that take part. */
  int members() {
    return Integer.highestOneBit(nRanks);
  }

  /** The number of ranks that leave their work to another. */
  private int spares() {
    return nRanks - members();
  }

  /** True if this rank takes part. */
  public boolean isMember() {
    return rank >= 2 * spares() || rank % 2 == 0;
  }

  /** The rank that this one works for, or that works for this one; -1 for none. */
  public int spare() {
    return rank >= 2 * spares() ? -1 : rank ^ 1;
  }

  /** This rank's place among those that take part, or that of the rank that works for it. */
  int place() {
    return rank < 2 * spares() ? rank / 2 : rank - spares();
  }

  /** The rank at a place; for the place after the last, the number of ranks. */
  int rankAt(int place) {
    return place < spares() ? 2 * place : place + spares();
  }

  /** The ranks that this one exchanges with, the nearest first. */
  public int[] partners() {
    int[] partners = new int[isMember() ? Integer.numberOfTrailingZeros(members()) : 0];
    for (int level = 0; level < partners.length; level++) {
      partners[level] = rankAt(place() ^ 1 << level);
    }
    return partners;
  }

  /**
   * All-reduce by recursive doubling: partners exchange the sums of ever more ranks, and both
   * combine them in the order of the ranks, so that all have the same bits.
   *
   * @param partners towards and from each partner, the nearest first, without prepare and finish
   * @param spare likewise with the rank that works for this one or the other way round, or null
   */
  public record AllReduce(
      Doubling place,
      Primitives[] partners,
      Primitives spare,
      Reduction reduction,
      int elementBytes,
      Chunking parts)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean member = place.isMember();
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        int bytes = parts.bytes(0);
        HostMemory own = send;
        if (reduction.hasPrepare()) {
          reduction.prepare(send, at, recv, at, bytes / elementBytes);
          own = recv;
        }
        if (!member) {
          spare.send(own, at, bytes);
          spare.recv(recv, at, bytes);
          continue;
        }
        if (spare != null) {
          spare.reduceInOrder(own, at, recv, at, bytes, Primitives.RECEIVE);
          own = recv;
        }
        for (Primitives partner : partners) {
          partner.send(own, at, bytes);
          partner.reduceInOrder(own, at, recv, at, bytes, Primitives.RECEIVE);
          own = recv;
        }
        if (reduction.hasFinish()) {
          reduction.finish(recv, at, bytes / elementBytes);
        }
        if (spare != null) {
          spare.send(recv, at, bytes);
        }
      }
    }
  }

  /**
   * Reduce-scatter by recursive halving, the farthest partner first: partners give each other the
   * half of the parts that the other goes on with. Both halves are runs of bytes.
   *
   * @param partners as of the all-reduce
   * @param spare likewise
   * @param parts of each rank's part: a message has that of all ranks at most
   * @param work memory for a chunk of all ranks
   */
  public record ReduceScatter(
      Doubling place,
      Primitives[] partners,
      Primitives spare,
      Reduction reduction,
      int elementBytes,
      Chunking parts,
      long partBytes,
      HostMemory work)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean member = place.isMember();
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        int bytes = parts.bytes(0);
        HostMemory own = send;
        if (bytes < partBytes || reduction.hasPrepare()) {
          gather(send, at, bytes);
          own = work;
        }
        if (member) {
          exchange(own, recv, at, bytes);
        } else {
          spare.send(own, 0, place.nRanks * bytes);
          spare.recv(recv, at, bytes);
        }
      }
    }

    /** The current chunk of all parts, side by side, as it enters the combination. */
    private void gather(HostMemory send, long at, int bytes) {
      for (int part = 0; part < place.nRanks; part++) {
        long from = part * partBytes + at;
        reduction.prepare(send, from, work, (long) part * bytes, bytes / elementBytes);
      }
    }

    private void exchange(HostMemory all, HostMemory recv, long at, int bytes) {
      HostMemory own = all;
      if (spare != null) {
        spare.reduceInOrder(own, 0, work, 0, place.nRanks * bytes, Primitives.RECEIVE);
        own = work;
      }
      int first = 0;
      for (int level = partners.length - 1; level >= 0; level--) {
        int half = 1 << level;
        boolean upper = (place.place() & half) != 0;
        int kept = upper ? first + half : first;
        int given = upper ? first : first + half;
        Primitives partner = partners[level];
        partner.send(own, begin(given, bytes), size(given, half, bytes));
        boolean last = level == 0 && spare == null;
        long keptAt = begin(kept, bytes);
        partner.reduceInOrder(
            own,
            keptAt,
            last ? recv : work,
            last ? at : keptAt,
            size(kept, half, bytes),
            Primitives.RECEIVE);
        own = work;
        first = kept;
      }
      finish(recv, at, bytes);
    }

    private void finish(HostMemory recv, long at, int bytes) {
      int count = bytes / elementBytes;
      if (spare == null) {
        if (reduction.hasFinish()) {
          reduction.finish(recv, at, count);
        }
        return;
      }
      long own = (long) place.rank * bytes;
      if (reduction.hasFinish()) {
        reduction.finish(work, own, 2 * count);
      }
      spare.send(work, own + bytes, bytes);
      Copies.copy(work, own, recv, at, bytes);
    }

    /** Offset of the parts of a place. */
    private long begin(int member, int bytes) {
      return (long) place.rankAt(member) * bytes;
    }

    /** Bytes of the parts of some places. */
    private int size(int member, int members, int bytes) {
      return (place.rankAt(member + members) - place.rankAt(member)) * bytes;
    }
  }
}
