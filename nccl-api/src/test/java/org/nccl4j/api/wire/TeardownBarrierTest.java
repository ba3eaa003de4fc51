package org.nccl4j.api.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.wire.TeardownBarrier.Look;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;

/** Memory is freed once others have done with it, here or on a thread. */
class TeardownBarrierTest {
  private static final Duration LONG = Duration.ofMinutes(5);

  private final AtomicBoolean othersDone = new AtomicBoolean();
  private final AtomicBoolean othersGone = new AtomicBoolean();
  private final BlockingQueue<String> said = new LinkedBlockingQueue<>();

  private void pass(Duration here, Duration patience) {
    TeardownBarrier.pass(
        new TeardownBarrier.Shared() {
          @Override
          public Look look() {
            if (othersGone.get()) {
              throw new RemoteException(ErrorId.CONNECTION, "a rank is gone", "see its output");
            }
            return othersDone.get() ? Look.OVER : Look.IDLE;
          }

          @Override
          public void late() {
            said.add("late");
          }

          @Override
          public void free(boolean over) {
            said.add(over + " on " + Thread.currentThread().getName());
          }
        },
        "later",
        here,
        patience);
  }

  @Test
  void whereOthersHaveDoneItIsFreedHere() {
    othersDone.set(true);
    pass(Duration.ZERO, Duration.ZERO);
    assertEquals("true on " + Thread.currentThread().getName(), said.remove());
    assertTrue(said.isEmpty());
  }

  @Test
  void whereOthersAreLateAThreadWaitsAndFrees() throws Exception {
    pass(Duration.ZERO, LONG);
    assertEquals("late", said.remove());
    assertTrue(said.isEmpty());
    othersDone.set(true);
    assertEquals("true on later", said.poll(LONG.toSeconds(), TimeUnit.SECONDS));
  }

  @Test
  void whereOthersCannotBeAskedItIsFreedAtOnce() throws Exception {
    othersGone.set(true);
    pass(LONG, LONG);
    assertEquals("late", said.remove());
    assertEquals("false on later", said.poll(LONG.toSeconds(), TimeUnit.SECONDS));
  }

  @Test
  void whereOthersGoWhileAThreadWaitsItFrees() throws Exception {
    pass(Duration.ZERO, LONG);
    assertEquals("late", said.remove());
    othersGone.set(true);
    assertEquals("false on later", said.poll(LONG.toSeconds(), TimeUnit.SECONDS));
  }

  @Test
  void patienceEnds() throws Exception {
    pass(Duration.ZERO, Duration.ofMillis(5));
    assertEquals("late", said.remove());
    assertEquals("false on later", said.poll(LONG.toSeconds(), TimeUnit.SECONDS));
    assertFalse(othersDone.get());
  }
}
