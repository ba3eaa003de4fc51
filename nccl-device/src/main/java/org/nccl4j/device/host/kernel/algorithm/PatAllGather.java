package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Call;
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
 * @param copies by which a rank copies its own part
 * @param leaves whether what is received leaves the caches before anybody reads it; what is sent on
 *     does not
 * @param to by distance
 * @param from by distance
 * @param partBytes of each rank
 * @param chunk bytes of a rank's part that a message carries
 */
public record PatAllGather(
    PatTrees trees,
    SpinWait waiter,
    Call call,
    BufferCopies copies,
    boolean leaves,
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
          copies.copy(send, at, recv, own + at, bytes, leaves);
        }
      }
    }
  }

  private void post(int level, HostMemory send, HostMemory recv, long at, int bytes) {
    SendEnd end = to[level];
    int distance = 1 << level;
    int children = trees.children(distance);
    end.awaitCredit(waiter);
    end.fill(send, at, 0, bytes);
    for (int i = 1; i < children; i++) {
      long part = trees.above(distance, i) * partBytes;
      end.fill(recv, part + at, i * bytes, bytes);
    }
    end.post(children * bytes, call);
  }

  private void take(int level, HostMemory recv, long at, int bytes) {
    RecvEnd end = from[level];
    int distance = 1 << level;
    int children = trees.children(distance);
    boolean sendsOn = level > 0;
    end.awaitData(waiter, call);
    end.locate(waiter);
    for (int i = 0; i < children; i++) {
      long part = trees.below(distance, i) * partBytes;
      end.copy(i * bytes, recv, part + at, bytes, leaves && !sendsOn, waiter);
    }
    end.release();
  }
}
