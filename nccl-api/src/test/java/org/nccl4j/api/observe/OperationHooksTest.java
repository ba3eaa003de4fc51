package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;

/** The end of hooks, with that of their communicator or before. */
class OperationHooksTest {
  private final List<String> seen = new ArrayList<>();
  private final List<Long> ends = new ArrayList<>();
  private final OperationHooks hooks = new OperationHooks();

  private OperationHook hook(String name) {
    return new OperationHook() {
      @Override
      public void launched(String what, long count, DataType type, int root, DeviceStream stream) {}

      @Override
      public void settle(boolean all, long end) {
        ends.add(end);
        seen.add(name + (all ? " settles" : " tells what it knows"));
      }

      @Override
      public void close() {
        seen.add(name + " closes");
      }
    };
  }

  @Test
  void theEndsOfOperationsAreToldBeforeTheCommunicatorCloses() {
    hooks.add(hook("a"));
    hooks.add(hook("b"));
    hooks.settle(/* all= */ true);
    hooks.close();
    assertEquals(List.of("a settles", "b settles", "a closes", "b closes"), seen);
  }

  /** With many listeners of a GPU that hangs, a close must not take seconds for each. */
  @Test
  void allHooksHaveOneTime() {
    hooks.add(hook("a"));
    hooks.add(hook("b"));
    hooks.settle(/* all= */ false);
    assertEquals(List.of("a tells what it knows", "b tells what it knows"), seen);
    assertEquals(ends.get(0), ends.get(1));
  }

  /** The operations under way may take long, and nobody waits for their ends. */
  @Test
  void whoIsRemovedDoesNotWait() {
    OperationHook removed = hook("a");
    hooks.add(removed);
    hooks.add(hook("b"));
    hooks.remove(removed);
    assertEquals(List.of("a closes"), seen);
    hooks.close();
    hooks.close();
    assertEquals(List.of("a closes", "b closes"), seen);
  }
}
