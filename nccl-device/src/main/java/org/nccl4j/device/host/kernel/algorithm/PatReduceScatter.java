package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Operands;
import org.nccl4j.device.host.reduce.Reduction;

/**
 * Reduce-scatter up the parallel aggregated trees, the smallest distance first: a rank adds its own
 * data to its children's, and sends the sums on to its parents. The children's data stay in their
 * slots until the chunk is done, so they take no other memory. Chunks follow each other a distance
 * apart, as far as there are slots for that.
 *
 * @param to by distance
 * @param from by distance
 * @param operands of a combination, where the reduction takes all at once
 * @param scratch at least 16 KiB
 * @param partBytes that each rank receives
 * @param chunk bytes of a rank's part that a message carries
 */
public record PatReduceScatter(
    PatTrees trees,
    SpinWait waiter,
    Call call,
    SendEnd[] to,
    RecvEnd[] from,
    Reduction reduction,
    int elementBytes,
    Operands operands,
    HostMemory scratch,
    long partBytes,
    int chunk)
    implements Kernel {
  private static final int PIECE = 16 << 10;

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    int stages = to.length;
    int apart = stages < ConnectionLayout.STEPS ? 1 : 0;
    long chunks = (partBytes + chunk - 1) / chunk;
    for (long wave = 0; wave < chunks + (long) stages * apart; wave++) {
      int oldest = (int) Math.min(wave, (long) stages * apart);
      for (int stage = 0; stage <= stages; stage++) {
        int behind = stage * apart;
        long at = (wave - behind) * chunk;
        if (at < 0 || at >= partBytes) {
          continue;
        }
        int ahead = oldest - behind;
        int bytes = (int) Math.min(chunk, partBytes - at);
        if (stage > 0) {
          from[stage - 1].awaitData(waiter, call, ahead);
        }
        if (stage < stages) {
          post(stage, ahead, send, at, bytes);
        } else {
          finish(ahead, send, recv, at, bytes);
        }
      }
    }
  }

  private void post(int level, int ahead, HostMemory send, long at, int bytes) {
    SendEnd end = to[level];
    int distance = 1 << level;
    int children = trees.children(distance);
    end.awaitCredit(waiter);
    for (int i = 0; i < children; i++) {
      long own = trees.below(distance, i) * partBytes + at;
      int fromRoot = distance + 2 * distance * i;
      if (level == 0 && !reduction.hasPrepare()) {
        end.fill(send, own, i * bytes, bytes); // nobody sends this rank its part
        continue;
      }
      long slot = end.simpleSlot() + (long) i * bytes;
      combine(level, fromRoot, ahead, send, own, end.memory(), slot, bytes);
    }
    end.post(children * bytes, call);
  }

  private void finish(int ahead, HostMemory send, HostMemory recv, long at, int bytes) {
    long own = trees.rank() * partBytes + at;
    combine(to.length, 0, ahead, send, own, recv, at, bytes);
    for (int done = 0; reduction.hasFinish() && done < bytes; done += PIECE) {
      reduction.finish(recv, at + done, Math.min(PIECE, bytes - done) / elementBytes);
    }
    for (RecvEnd end : from) {
      end.release();
    }
  }

  /** Own data and those of the children at smaller distances, a piece at a time. */
  private void combine(
      int levels,
      int fromRoot,
      int ahead,
      HostMemory send,
      long own,
      HostMemory target,
      long targetOffset,
      int bytes) {
    for (int done = 0; done < bytes; done += PIECE) {
      int piece = Math.min(PIECE, bytes - done);
      int count = piece / elementBytes;
      if (reduction.widens() && gather(levels, fromRoot, ahead, send, own + done, done, bytes)) {
        reduction.reduceAll(operands, target, targetOffset + done, count);
        continue;
      }
      HostMemory sum = send;
      long sumOffset = own + done;
      if (reduction.hasPrepare()) {
        reduction.prepare(send, own + done, scratch, 0, count);
        sum = scratch;
        sumOffset = 0;
      }
      for (int level = 0; level < levels; level++) {
        int place = trees.place(fromRoot, 1 << level);
        if (place >= 0) {
          RecvEnd end = from[level];
          long theirs = end.simpleSlot(ahead) + (long) place * bytes + done;
          reduction.reduce(
              sum, sumOffset, end.memory(), theirs, target, targetOffset + done, count);
          sum = target;
          sumOffset = targetOffset + done;
        }
      }
      if (sum != target) {
        Copies.copy(sum, sumOffset, target, targetOffset + done, piece);
      }
    }
  }

  /** Gathers own data and those of the children; returns whether there are any of these. */
  private boolean gather(
      int levels, int fromRoot, int ahead, HostMemory send, long own, int done, int bytes) {
    operands.clear();
    if (reduction.hasPrepare()) {
      operands.addUnprepared(send, own);
    } else {
      operands.add(send, own);
    }
    for (int level = 0; level < levels; level++) {
      int place = trees.place(fromRoot, 1 << level);
      if (place >= 0) {
        RecvEnd end = from[level];
        operands.add(end.memory(), end.simpleSlot(ahead) + (long) place * bytes + done);
      }
    }
    return operands.size() > 1;
  }
}
