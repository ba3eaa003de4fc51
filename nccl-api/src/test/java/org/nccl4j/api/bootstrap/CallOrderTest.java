package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;

/** Collective calls of several threads of a rank. */
@Timeout(600)
class CallOrderTest {
  private final CallOrder order = new CallOrder(Duration.ofSeconds(30));
  private final List<Integer> calls = new CopyOnWriteArrayList<>();

  /** Makes a call on a thread of its own. */
  private FutureTask<Void> call(CallOrder.Turn turn, int number) {
    FutureTask<Void> task =
        new FutureTask<>(
            () -> {
              try (turn) {
                turn.await();
                calls.add(number);
              }
            },
            null);
    new Thread(task).start();
    return task;
  }

  @Test
  void callsAreMadeInTheOrderInWhichTheyTookTheirTurns() throws Exception {
    CallOrder.Turn first = order.take();
    CallOrder.Turn second = order.take();
    FutureTask<Void> third = call(order.take(), 3);
    FutureTask<Void> other = call(second, 2);
    call(first, 1).get(300, TimeUnit.SECONDS);
    other.get(300, TimeUnit.SECONDS);
    third.get(300, TimeUnit.SECONDS);
    assertEquals(List.of(1, 2, 3), calls);
  }

  /** One that is cancelled while it waits lets no later one overtake the one before it. */
  @Test
  void aCallThatIsNotMadeHasNoCallOvertakeAnother() throws Exception {
    CallOrder.Turn first = order.take();
    first.await();
    CallOrder.Turn cancelled = order.take();
    FutureTask<Void> third = call(order.take(), 3);
    cancelled.close();
    cancelled.close();
    CallOrder.Turn last = order.take();
    Thread waits =
        new Thread(
            () -> {
              try (last) {
                assertThrows(NcclException.class, last::await);
              }
            });
    waits.start();
    waits.interrupt();
    waits.join();
    assertEquals(List.of(), calls);
    assertFalse(third.isDone());
    calls.add(1);
    first.close();
    first.close();
    third.get(300, TimeUnit.SECONDS);
    order.enter().close();
    assertEquals(List.of(1, 3), calls);
  }

  @Test
  void aCallInsideACallBelongsToItsTurn() throws Exception {
    CallOrder.Turn outer = order.enter();
    FutureTask<Void> next = call(order.take(), 2);
    order.enter().close();
    calls.add(1);
    outer.close();
    next.get(300, TimeUnit.SECONDS);
    assertEquals(List.of(1, 2), calls);
  }

  @Test
  void aCallThatWaitsForOneThatDoesNotEndHasADeadline() throws Exception {
    CallOrder hasty = new CallOrder(Duration.ofMillis(5));
    hasty.allowOperations(Duration.ofMillis(5));
    hasty.take();
    NcclException e = assertThrows(NcclException.class, hasty::enter);
    assertEquals(ErrorId.STILL_RUNNING, e.id());
    assertTrue(e.problem().contains("within 25 ms"), e.problem());
  }
}
