package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.AlgorithmFilter;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Operation;

/** Which plans are made, kept and discarded. */
class PlannerTest {
  private static final int RANKS = 4;

  /** More different groups than any cache of plans holds. */
  private static final int MANY = 5000;

  private final List<Plan> made = new ArrayList<>();
  private final Planner planner =
      new Planner(
          kernels(),
          0,
          new CommunicatorProfile(RANKS, Device.Kind.HOST, "", true, false),
          new ConnectionLayout(1 << 10, 1 << 10, 1 << 12),
          null,
          new Planner.Rules(
              AlgorithmFilter.ALL,
              TunerHook.NONE,
              CtaLimits.NONE,
              new InfoLog(Settings.ofProcess(Map.of()), "rank 0 of communicator planned")));

  private static final class Plan implements KernelPlan {
    private int discarded;

    @Override
    public void discard() {
      discarded++;
    }
  }

  private KernelCommunicator kernels() {
    return (KernelCommunicator)
        Proxy.newProxyInstance(
            PlannerTest.class.getClassLoader(),
            new Class<?>[] {KernelCommunicator.class},
            (proxy, method, arguments) ->
                switch (method.getName()) {
                  case "hasCopyEngines" -> false;
                  case "prepare" -> {
                    made.add(new Plan());
                    yield made.get(made.size() - 1);
                  }
                  default -> throw new UnsupportedOperationException(method.getName());
                });
  }

  /** An all-to-all of parts passes slices that are made for the call. */
  private static List<P2pTask> exchange(DeviceMemory send, DeviceMemory recv, int bytes) {
    List<P2pTask> tasks = new ArrayList<>();
    for (int peer = 1; peer < RANKS; peer++) {
      tasks.add(new P2pTask(true, peer, send.slice(64 * peer, bytes), bytes, null));
      tasks.add(new P2pTask(false, peer, recv.slice(64 * peer, bytes), bytes, null));
    }
    return tasks;
  }

  @Test
  void equalCallsPrepareOnce() {
    try (DeviceMemory send = HostDevice.instance().allocate(1 << 10);
        DeviceMemory recv = HostDevice.instance().allocate(1 << 10)) {
      KernelPlan first = planner.plan(exchange(send, recv, 32));
      for (int call = 0; call < 1000; call++) {
        assertSame(first, planner.plan(exchange(send, recv, 32)));
      }
      assertEquals(1, made.size());
      assertNotSame(first, planner.plan(exchange(send, recv, 33)));
      assertNotSame(first, planner.plan(exchange(recv, send, 32)));
      assertSame(first, planner.plan(exchange(send, recv, 32)));
    }
  }

  /** A kernel in a queue of the host has to keep the memory that it works on. */
  @Test
  void otherMemoryOfTheHostAtAnAddressIsOther() {
    try (DeviceMemory memory = HostDevice.instance().allocate(64)) {
      P2pTask task = new P2pTask(true, 1, memory, 64, null);
      DeviceMemory again = memory.slice(0, 64);
      assertEquals(task, new P2pTask(true, 1, again, 64, null));
      assertEquals(task.hashCode(), new P2pTask(true, 1, again, 64, null).hashCode());
      DeviceMemory first = HostDevice.instance().allocate(64);
      assertEquals(false, task.equals(new P2pTask(true, 1, first, 64, null)));
      first.close();
    }
  }

  @Test
  void aGroupThatWasUsedLongAgoIsDiscarded() {
    try (DeviceMemory send = HostDevice.instance().allocate(1 << 14);
        DeviceMemory recv = HostDevice.instance().allocate(1 << 14)) {
      Plan often = (Plan) planner.plan(exchange(send, recv, 1));
      for (int call = 0; call < MANY; call++) {
        planner.plan(exchange(send, recv, 2 + call));
        assertSame(often, planner.plan(exchange(send, recv, 1)));
      }
      assertEquals(0, often.discarded);
      assertHolds(256);
    }
  }

  @Test
  void aShapeWhosePlaceAnotherTakesIsDiscarded() {
    for (int count = 1; count <= MANY; count++) {
      planner.plan(CallShape.of(Operation.ALL_REDUCE, DataType.INT8, RedOp.SUM, 0), count);
      planner.plan(CallShape.of(Operation.ALL_TO_ALL, DataType.INT8, RedOp.SUM, 0), count);
    }
    assertHolds(1024);
  }

  private void assertHolds(int most) {
    long held = made.stream().filter(plan -> plan.discarded == 0).count();
    assertEquals(true, held <= most, held + " plans are held");
    assertEquals(made.size() - held, made.stream().mapToInt(plan -> plan.discarded).sum());
  }
}
