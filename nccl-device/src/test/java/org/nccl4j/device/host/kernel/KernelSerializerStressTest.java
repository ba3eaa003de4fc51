package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;

/**
 * Kernels of one communicator in many threads: they run by their tickets, one at a time, each
 * seeing what those before have written; after a failure none runs.
 *
 * <p>Shown to fail when the turn is passed on before the kernel has run, and when a ticket does not
 * wait for those before it.
 */
@Timeout(600)
class KernelSerializerStressTest {
  private static final int THREADS = 4;
  private static final int TICKETS = 8_000;

  /** Plain fields: only the turns order the accesses. */
  private long next;

  private String wrong = "";

  private void kernel(long ticket) {
    if (next != ticket) {
      wrong = "ticket %d runs as number %d".formatted(ticket, next);
    }
    next = ticket + 1;
  }

  @RepeatedTest(3)
  void kernelsTakeTurns() throws Exception {
    SpinWait waiter = new SpinWait("serializer", 0, Duration.ofSeconds(30), false, Progress.NONE);
    ConnectionTable ends = new ConnectionTable(alone());
    KernelSerializer serializer = new KernelSerializer(waiter, Progress.NONE, ends);
    inThreads(
        first -> {
          for (long ticket = first; ticket < TICKETS; ticket += THREADS) {
            long mine = ticket;
            serializer.run((send, recv) -> kernel(mine), ends, null, null, ticket, 0);
          }
        });
    assertEquals("", wrong);
    assertEquals(TICKETS, next);
    assertTrue(serializer.reached(TICKETS));
  }

  @RepeatedTest(3)
  void afterAFailureNoneRuns() throws Exception {
    SpinWait waiter = new SpinWait("serializer", 0, Duration.ofSeconds(30), false, Progress.NONE);
    ConnectionTable ends = new ConnectionTable(alone());
    KernelSerializer serializer = new KernelSerializer(waiter, Progress.NONE, ends);
    int failing = 1000;
    inThreads(
        first -> {
          for (long ticket = first; ticket < 2 * failing; ticket += THREADS) {
            long mine = ticket;
            if (ticket < failing) {
              serializer.run((send, recv) -> kernel(mine), ends, null, null, ticket, 0);
            } else {
              NcclException e =
                  assertThrows(
                      NcclException.class,
                      () -> serializer.run((send, recv) -> fail(mine), ends, null, null, mine, 0));
              assertTrue(e.getMessage().contains("ticket 1000"), e.getMessage());
            }
          }
        });
    assertEquals("", wrong);
    assertEquals(failing, next);
  }

  private static void fail(long ticket) {
    throw new InvalidUsageException("ticket " + ticket + " fails", "none");
  }

  private interface Part {
    void run(int first);
  }

  private static void inThreads(Part part) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    List<Future<?>> all = new ArrayList<>();
    for (int t = 0; t < THREADS; t++) {
      int first = t;
      all.add(threads.submit(() -> part.run(first)));
    }
    for (Future<?> one : all) {
      one.get(300, TimeUnit.SECONDS);
    }
    threads.shutdown();
  }

  private static KernelCommunicatorSpec alone() {
    ConnectionLayout layout = HostDevice.instance().connectionLayout(1);
    List<Connection> none = new ArrayList<>();
    none.add(null);
    int[] ring = {0};
    Tree tree = new Tree(-1, List.of());
    return new KernelCommunicatorSpec(
        "serializer",
        0,
        1,
        layout,
        none,
        none,
        List.of(ring),
        List.of(tree, tree),
        1,
        Progress.NONE,
        Duration.ofSeconds(30));
  }
}
