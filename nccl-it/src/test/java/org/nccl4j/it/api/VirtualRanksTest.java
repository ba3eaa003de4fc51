package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Ranks of the host that are virtual threads, more than this machine's carriers may be. */
@Timeout(600)
class VirtualRanksTest {
  private static final int RANKS = 8;
  private static final int TIMES = 20;
  private static final int COUNT = 1000;

  @Test
  void ranksMayBeVirtualThreads() throws Exception {
    assumeTrue(Runtime.version().feature() >= 21, "virtual threads came with Java 21");
    Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Float>> sums = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      CompletableFuture<Float> sum = new CompletableFuture<>();
      int own = rank;
      Runnable task =
          () -> {
            try {
              sum.complete(sum(id, own));
            } catch (RuntimeException | AssertionError e) {
              sum.completeExceptionally(e);
            }
          };
      start.invoke(null, task);
      sums.add(sum);
    }
    for (CompletableFuture<Float> each : sums) {
      assertEquals(RANKS, each.get(300, TimeUnit.SECONDS));
    }
  }

  private static float sum(UniqueId id, int rank) {
    ByteBuffer one = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
    ByteBuffer all = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
    one.putFloat(4 * (COUNT - 1), 1);
    try (Communicator communicator = Communicator.initRank(RANKS, id, rank, Devices.host());
        DeviceStream stream = Devices.host().createStream()) {
      for (int time = 0; time < TIMES; time++) {
        communicator.allReduce(
            Devices.wrap(one), Devices.wrap(all), COUNT, DataType.FLOAT32, RedOp.SUM, stream);
        stream.synchronize();
      }
    }
    return all.getFloat(4 * (COUNT - 1));
  }
}
