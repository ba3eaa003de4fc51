package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;

/** What connections over a network cost when nothing goes over them, and when they are warm. */
@Timeout(180)
class NetCostTest {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private static final int OPERATIONS = 1000;
  private static final int COUNT = 200_000;

  private static CommunicatorConfig net(int threads) {
    return CommunicatorConfig.defaults()
        .withTransports(List.of("NET"))
        .with("NCCL_SOCKET_IFNAME", "lo")
        .with("NCCL_SOCKET_NTHREADS", Integer.toString(threads));
  }

  private static List<Thread> workers() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().matches("nccl4j-(proxy|socket)-.*"))
        .toList();
  }

  private static boolean allParked(List<Thread> threads) {
    return threads.stream().allMatch(thread -> thread.getState() == Thread.State.WAITING);
  }

  /** Waiting without a limit takes no processor time, which a sleep in a loop would. */
  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void idleProxiesAreParked(int helpers) throws Exception {
    try (Ranks ranks = new Ranks(3, net(helpers))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
              comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
            }
          });
      List<Thread> workers = workers();
      assertFalse(workers.isEmpty());
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
      while (!allParked(workers) && System.nanoTime() < end) {
        Thread.onSpinWait();
      }
      long before = cpuNanos(workers);
      for (int look = 0; look < 100_000; look++) {
        Thread.yield();
      }
      assertTrue(allParked(workers), workers.toString());
      assertEquals(before, cpuNanos(workers), "processor time of parked proxies");
    }
  }

  private static long cpuNanos(List<Thread> threads) {
    return threads.stream().mapToLong(thread -> THREADS.getThreadCpuTime(thread.getId())).sum();
  }

  /** Neither the thread that waits for an operation, nor those that carry it, allocate. */
  @Test
  void warmOperationsAllocateNothing() throws Exception {
    try (Ranks ranks = new Ranks(2, net(1))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
              long[] threads = carriers();
              long least = Long.MAX_VALUE;
              for (int round = 0; round < 10 && least >= OPERATIONS; round++) {
                long before = allocated(threads);
                for (int i = 0; i < OPERATIONS / 10; i++) {
                  comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.MAX, stream);
                  for (int small = 0; small < 10; small++) {
                    comm.allReduce(data, data, 2, DataType.FLOAT32, RedOp.MAX, stream);
                  }
                  stream.synchronize();
                }
                least = Math.min(least, allocated(threads) - before);
              }
              assertTrue(least < OPERATIONS, least + " bytes by " + OPERATIONS + " operations");
            }
          });
    }
  }

  /** This thread and all that carry data. */
  private static long[] carriers() {
    return Stream.concat(Stream.of(Thread.currentThread()), workers().stream())
        .mapToLong(Thread::getId)
        .toArray();
  }

  private static long allocated(long[] threads) {
    long bytes = 0;
    for (long thread : threads) {
      bytes += THREADS.getThreadAllocatedBytes(thread);
    }
    return bytes;
  }
}
