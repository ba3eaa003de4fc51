package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * All-gather down the parallel aggregated trees, the greatest distance first: a rank sends on its
 * received parts with its own to nearer ranks. Chunks follow each other a distance apart, so that
 * one is under way at each distance at a time.
 *
 * @param to by distance
 * @param from by distance
 * @param partBytes of each rank
 * @param chunk bytes of a rank's part that a message carries
 */
public record PatAllGather(
    PatTrees trees,
    SpinWait waiter,
    Call call,
    SendEnd[] to,
    RecvEnd[] from,
    long partBytes,
    int chunk)
    implements Kernel {
  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    long own = trees.rank() * partBytes;
    boolean inPlace = send.address() == recv.address() + own;
    int stages = to.length;
    long chunks = (partBytes + chunk - 1) / chunk;
    for (long wave = 0; wave < chunks + stages; wave++) {
      for (int stage = 0; stage <= stages; stage++) {
        long at = (wave - stage) * chunk;
        if (at < 0 || at >= partBytes) {
          continue;
        }
        int bytes = (int) Math.min(chunk, partBytes - at);
        if (stage > 0) {
          take(stages - stage, recv, at, bytes);
        }
        if (stage < stages) {
          post(stages - 1 - stage, send, recv, at, bytes);
        }
        if (stage == 0 && !inPlace) {
          Copies.copy(send, at, recv, own + at, bytes);
        }
      }
    }
  }

  private void post(int level, HostMemory send, HostMemory recv, long at, int bytes) {
    SendEnd end = to[level];
    int distance = 1 << level;
    int children = trees.children(distance);
    end.awaitCredit(waiter);
    long slot = end.simpleSlot();
    Copies.copy(send, at, end.memory(), slot, bytes);
    for (int i = 1; i < children; i++) {
      long part = trees.above(distance, i) * partBytes;
      Copies.copy(recv, part + at, end.memory(), slot + (long) i * bytes, bytes);
    }
    end.post(children * bytes, call);
  }

  private void take(int level, HostMemory recv, long at, int bytes) {
    RecvEnd end = from[level];
    int distance = 1 << level;
    int children = trees.children(distance);
    end.awaitData(waiter, call);
    long slot = end.simpleSlot();
    for (int i = 0; i < children; i++) {
      long part = trees.below(distance, i) * partBytes;
      Copies.copy(end.memory(), slot + (long) i * bytes, recv, part + at, bytes);
    }
    end.release();
  }
}
