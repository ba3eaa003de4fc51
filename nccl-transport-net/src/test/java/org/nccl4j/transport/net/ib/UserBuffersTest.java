package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.transport.net.memory.UserBuffers;

/** Registrations of users' buffers that are used in turn. */
class UserBuffersTest extends WithRoce {
  private static final int BYTES = 8192;
  private static final int STEPS = 4;

  private final List<RegisteredMemory> registered = new ArrayList<>();

  @AfterEach
  void free() {
    for (RegisteredMemory each : registered) {
      each.close();
      each.memory().close();
    }
  }

  private void register(int count) {
    for (int i = 0; i < count; i++) {
      registered.add(RegisteredMemory.of(IbLink.memory(BYTES)));
    }
  }

  private long calls(String name) {
    return fake.fake_calls().lines().filter(name::equals).count();
  }

  /**
   * Uses a buffer as an operation of several steps does: each but the first is found while another
   * is in progress.
   *
   * @return whether the network takes it
   */
  private boolean use(UserBuffers buffers, int number) {
    DeviceMemory memory = registered.get(number).memory();
    int taken = 0;
    for (int step = 0; step < STEPS; step++) {
      long address = memory.address() + step * (BYTES / STEPS);
      if (buffers.find(memory, address, BYTES / STEPS, step == 0)) {
        assertEquals(memory.address(), buffers.memory().memory().address());
        assertEquals(address - memory.address(), buffers.offset());
        taken++;
      }
    }
    assertTrue(taken == 0 || taken == STEPS, taken + " steps of " + STEPS);
    return taken > 0;
  }

  @Test
  void buffersInTurnAreRegisteredOnce() {
    register(UserBuffers.MOST);
    try (IbLink link = new IbLink();
        UserBuffers buffers = new UserBuffers(link.sender, null)) {
      long before = calls("ibv_reg_mr");
      for (int round = 0; round < 3; round++) {
        for (int number = 0; number < UserBuffers.MOST; number++) {
          assertTrue(use(buffers, number), "buffer " + number);
        }
      }
      assertEquals(UserBuffers.MOST, calls("ibv_reg_mr") - before);
      assertEquals(0, calls("ibv_dereg_mr"));
    }
  }

  /** Those that are known stay, and the rest goes through slots, however long that lasts. */
  @Test
  void aLargerWorkingSetReplacesNothing() {
    int count = UserBuffers.MOST + 20;
    register(count);
    try (IbLink link = new IbLink();
        UserBuffers buffers = new UserBuffers(link.sender, null)) {
      long before = calls("ibv_reg_mr");
      for (int round = 0; round < 3 * UserBuffers.REST / count; round++) {
        int taken = 0;
        for (int number = 0; number < count; number++) {
          taken += use(buffers, number) ? 1 : 0;
        }
        assertEquals(UserBuffers.MOST, taken, "round " + round);
      }
      assertEquals(UserBuffers.MOST, calls("ibv_reg_mr") - before);
      assertEquals(0, calls("ibv_dereg_mr"));
    }
  }

  /** The working set is another one by then. */
  @Test
  void whatHasRestedForLongMakesRoom() {
    register(UserBuffers.MOST + 2);
    try (IbLink link = new IbLink();
        UserBuffers buffers = new UserBuffers(link.sender, null)) {
      int live = fake.fake_live();
      long before = calls("ibv_reg_mr");
      for (int number = 0; number < UserBuffers.MOST; number++) {
        use(buffers, number);
      }
      int last = UserBuffers.MOST + 1;
      for (int round = 0; round < UserBuffers.REST; round++) {
        use(buffers, last - round % 2);
        use(buffers, 0);
      }
      assertTrue(use(buffers, last) && use(buffers, last - 1));
      assertTrue(use(buffers, 0), "it was in use");
      assertEquals(UserBuffers.MOST + 2, calls("ibv_reg_mr") - before);
      IbLink.await(() -> fake.fake_live() == live + UserBuffers.MOST);
    }
  }

  /** Also where it was the last one for which there was no room. */
  @Test
  void theEndOfARegistrationMakesRoom() {
    register(UserBuffers.MOST + 1);
    try (IbLink link = new IbLink();
        UserBuffers buffers = new UserBuffers(link.sender, null)) {
      int live = fake.fake_live();
      for (int number = 0; number < UserBuffers.MOST; number++) {
        use(buffers, number);
      }
      assertFalse(use(buffers, UserBuffers.MOST));
      registered.get(5).close();
      assertFalse(use(buffers, 5));
      buffers.forgetEnded();
      assertTrue(use(buffers, UserBuffers.MOST));
      assertTrue(use(buffers, 6));
      IbLink.await(() -> fake.fake_live() == live + UserBuffers.MOST);
    }
  }
}
