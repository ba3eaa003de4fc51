package org.nccl4j.api.group;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.P2pTask;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Operation;

/** Sends and receives of groups that come again. */
class P2pTasksTest {
  private static final long SEND = CallShape.of(Operation.SEND, DataType.INT8, RedOp.SUM, 1);

  private final DeviceMemory buffer = HostDevice.instance().allocate(64);
  private final P2pTasks tasks = new P2pTasks();

  @AfterEach
  void close() {
    buffer.close();
  }

  private void put(int n, P2pWork.Offer offer) {
    for (int t = 0; t < n; t++) {
      tasks.put(t, SEND, buffer, 8 + t, offer);
    }
  }

  @Test
  void tasksThatChangeArePlannedAnew() {
    assertFalse(tasks.arePlanned(3));
    put(3, null);
    assertFalse(tasks.arePlanned(3), "the planner may have failed");
    assertTrue(tasks.is(2, SEND, buffer, 10));
    assertFalse(tasks.is(2, SEND, buffer, 9));
    tasks.notePlanned();
    assertTrue(tasks.arePlanned(3));
    assertFalse(tasks.arePlanned(2));
    put(2, null);
    tasks.notePlanned();
    assertTrue(tasks.arePlanned(2));
    assertFalse(tasks.arePlanned(3));
    tasks.forget();
    assertFalse(tasks.arePlanned(2));
    assertFalse(tasks.arePlanned(0));
  }

  /** A window that is registered between two groups with the same calls changes what is planned. */
  @Test
  void anotherOfferIsAnotherTask() {
    put(3, null);
    tasks.notePlanned();
    List<P2pTask> before = List.copyOf(tasks.tasks());
    put(3, P2pWork.Offer.NONE);
    assertNotEquals(before, tasks.tasks());
    assertFalse(tasks.arePlanned(3));
    put(3, null);
    assertEquals(before, tasks.tasks());
    assertFalse(tasks.arePlanned(3), "not planned since");
  }

  @Test
  void aKnownCallIsThatOfItsPlace() {
    put(2, null);
    int known = 0;
    for (int call = 0; call < CheckedCall.CHECKED; call++) {
      known += tasks.knows(1, SEND, buffer, 9) ? 1 : 0;
    }
    assertEquals(CheckedCall.CHECKED - 1, known, "one in so many counts as another");
    assertFalse(tasks.knows(0, SEND, buffer, 9));
    assertFalse(tasks.knows(5, SEND, buffer, 9));
    assertFalse(tasks.knows(1, SEND, buffer.slice(0, 9), 9));
  }
}
