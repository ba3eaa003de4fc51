package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** The costs of network connections, idle and warm. */
@Timeout(600)
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

  /** The threads that carry data beside the ranks' own. */
  static List<Thread> workers() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().matches("nccl4j-(proxy|socket)-.*"))
        .toList();
  }

  /** The workers but for the watch of sockets, which allocates when it looks at the port. */
  static List<Thread> carriers() {
    return workers().stream().filter(thread -> !isWatch(thread)).toList();
  }

  private static boolean isWatch(Thread thread) {
    return thread.getName().equals("nccl4j-socket-watch");
  }

  /**
   * True if all wait without a limit: the watch of sockets in a system call, the others parked. Of
   * those, an earlier test's may have ended.
   */
  private static boolean allParked(List<Thread> threads) {
    return threads.stream()
        .filter(Thread::isAlive)
        .allMatch(thread -> thread.getState() == Thread.State.WAITING || isResting(thread));
  }

  private static boolean isResting(Thread thread) {
    return isWatch(thread)
        && Stream.of(thread.getStackTrace())
            .anyMatch(frame -> frame.getMethodName().equals("rest"));
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
      // A thread says that it is parked a little before it sleeps.
      long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
      long taken = -1;
      while ((taken != 0 || !allParked(workers)) && System.nanoTime() < end) {
        taken = cpuNanosOfLooks(workers);
      }
      assertTrue(allParked(workers), workers.toString());
      assertEquals(0, taken, "processor time of parked proxies");
    }
  }

  /** The processor time of the workers while this thread does something else for many polls. */
  private static long cpuNanosOfLooks(List<Thread> workers) {
    long before = cpuNanos(workers);
    for (int look = 0; look < 100_000; look++) {
      Thread.yield();
    }
    return cpuNanos(workers) - before;
  }

  private static long cpuNanos(List<Thread> threads) {
    return threads.stream().mapToLong(thread -> THREADS.getThreadCpuTime(thread.getId())).sum();
  }

  /** Neither the threads that wait for an operation, nor those that carry it, allocate. */
  @Test
  void warmOperationsAllocateNothing() throws Exception {
    try (Ranks ranks = new Ranks(2, net(1))) {
      Allocation allocation = new Allocation(2, OPERATIONS, carriers());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
              allocation.measure(() -> operations(comm, stream, data));
            }
          });
      allocation.assertNothing();
    }
  }

  private static void operations(Communicator comm, DeviceStream stream, DeviceMemory data) {
    for (int i = 0; i < OPERATIONS / 10; i++) {
      comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.MAX, stream);
      for (int small = 0; small < 10; small++) {
        comm.allReduce(data, data, 2, DataType.FLOAT32, RedOp.MAX, stream);
      }
      stream.synchronize();
    }
  }
}
