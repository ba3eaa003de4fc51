package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Any thread calls any communicator, and the order of a rank's calls is that of its operations. */
@Timeout(600)
class ThreadsTest {
  private static final int THREADS = 4;

  private interface Body {
    void run(Communicator comm, int thread) throws Exception;
  }

  /** Some threads for each rank, with no order among them but the body's. */
  private static void onThreads(List<Communicator> ranks, Body body) throws Exception {
    List<CompletableFuture<Void>> all = new ArrayList<>();
    for (Communicator comm : ranks) {
      for (int t = 0; t < THREADS; t++) {
        int thread = t;
        CompletableFuture<Void> done = new CompletableFuture<>();
        all.add(done);
        Thread runner =
            new Thread(
                () -> {
                  try {
                    body.run(comm, thread);
                    done.complete(null);
                  } catch (Throwable e) {
                    done.completeExceptionally(e);
                  }
                },
                "rank " + comm.rank() + " thread " + thread);
        runner.setDaemon(true);
        runner.start();
      }
    }
    for (CompletableFuture<Void> each : all) {
      each.get(300, TimeUnit.SECONDS);
    }
  }

  /** Calls that are all alike need no order; each gets the whole sum. */
  @Test
  void threadsOfOneRankCallAtTheSameTime() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      onThreads(
          ranks.communicators,
          (comm, thread) -> {
            float mine = 1 + comm.rank();
            try (DeviceStream stream = Devices.host().createStream();
                DeviceMemory in = Ranks.floats(33, i -> mine);
                DeviceMemory out = Ranks.floats(33, i -> 0)) {
              for (int n = 0; n < 500; n++) {
                out.fill((byte) 0x77);
                comm.allReduce(in, out, 33, DataType.FLOAT32, RedOp.SUM, stream);
                stream.synchronize();
                assertEquals(3f, Ranks.floats(out)[32], "call " + n);
              }
            }
          });
    }
  }

  /** Different operations, each called by any thread of a rank, in one order. */
  @Test
  void operationsTakeEffectInTheOrderOfTheCallsWhoeverCalls() throws Exception {
    int calls = 200;
    long seed = Long.getLong("nccl4j.seed", 1);
    System.out.println("seed " + seed);
    Ranks[] both = {
      new Ranks(2),
      new Ranks(2, CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_GLOBAL"))
    };
    for (Ranks ranks : both) {
      AtomicInteger[] turns = {new AtomicInteger(), new AtomicInteger()};
      onThreads(
          ranks.communicators,
          (comm, thread) -> {
            Random callers = new Random(seed + comm.rank()); // others on the other rank
            Random operations = new Random(seed);
            try (DeviceStream stream = Devices.host().createStream();
                DeviceMemory data = Ranks.floats(4000, i -> 0)) {
              for (int n = 0; n < calls; n++) {
                int count = 1 + operations.nextInt(4000);
                int kind = operations.nextInt(3);
                boolean mine = callers.nextInt(THREADS) == thread;
                while (mine && turns[comm.rank()].get() != n) {
                  Thread.yield();
                }
                if (mine) {
                  call(comm, kind, data, count, 1 + comm.rank() + n, stream);
                  turns[comm.rank()].incrementAndGet();
                  stream.synchronize();
                  float expected = kind == 0 ? 3 + 2 * n : kind == 1 ? 2 + n : 1 + n;
                  assertEquals(expected, Ranks.floats(data)[count - 1], "call " + n);
                }
              }
            }
          });
      ranks.close();
    }
  }

  private static void call(
      Communicator comm, int kind, DeviceMemory data, int count, float value, DeviceStream stream) {
    try (DeviceMemory mine = Ranks.floats(count, i -> value)) {
      data.write(0, bytes(mine));
    }
    switch (kind) {
      case 0 -> comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
      case 1 -> comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.MAX, stream);
      default -> comm.broadcast(data, data, count, DataType.FLOAT32, 0, stream);
    }
  }

  private static ByteBuffer bytes(DeviceMemory memory) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size());
    memory.read(0, bytes);
    return bytes.flip();
  }
}
