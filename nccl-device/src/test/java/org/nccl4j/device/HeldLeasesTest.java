package org.nccl4j.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.support.Patience;

@Timeout(600)
class HeldLeasesTest {
  private static final int ROUNDS = 5_000;

  private final HostDevice device = HostDevice.instance();
  private final DeviceStream stream = device.createStream();
  private final HeldLeases held = new HeldLeases();

  @AfterEach
  void close() {
    stream.close();
  }

  @Test
  void whatIsHeldIsFreedAtTheRelease() {
    DeviceMemory first = device.allocate(8);
    DeviceMemory second = device.allocate(8);
    DeviceStream ended = device.createStream();
    held.hold(Leases.of(first), Leases.of(ended));
    held.holdAlso(Leases.of(second));
    first.close();
    second.close();
    ended.close();
    for (Leases each : new Leases[] {Leases.of(first), Leases.of(second), Leases.of(ended)}) {
      assertFalse(each.isOpen());
      assertFalse(each.isOver());
    }
    held.release();
    for (Leases each : new Leases[] {Leases.of(first), Leases.of(second), Leases.of(ended)}) {
      assertTrue(each.isOver());
    }
  }

  @Test
  void whatIsNoLongerHeldIsFreedByItsClose() {
    DeviceMemory first = device.allocate(8);
    DeviceMemory second = device.allocate(8);
    held.hold(Leases.of(first), Leases.of(stream));
    held.release();
    first.close();
    assertTrue(Leases.of(first).isOver());
    held.hold(Leases.of(second), Leases.of(stream));
    second.close();
    second.close();
    held.release();
    assertTrue(Leases.of(second).isOver());
  }

  /** A lease that a close has counted too late is ended by the next look. */
  @Test
  void whatIsCountedBesideAReleaseIsFreedInTheEnd() throws Exception {
    CyclicBarrier both = new CyclicBarrier(2);
    DeviceMemory[] rounds = new DeviceMemory[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
      rounds[round] = device.allocate(8);
    }
    Thread closer =
        new Thread(
            () -> {
              for (DeviceMemory each : rounds) {
                meet(both);
                each.close();
              }
            });
    closer.start();
    for (DeviceMemory each : rounds) {
      held.hold(Leases.of(each), Leases.of(stream));
      meet(both);
      held.release();
    }
    closer.join();
    Leases.logOverdue();
    long over = 0;
    for (DeviceMemory each : rounds) {
      over += Leases.of(each).isOver() ? 1 : 0;
    }
    assertEquals(ROUNDS, over);
  }

  /** The thread of a group ends, and its holder is collected. */
  @Test
  void whatWasCountedForACollectedHolderIsFreed() {
    DeviceMemory memory = device.allocate(8);
    WeakReference<HeldLeases> holder = closeUnder(memory);
    assertFalse(Leases.of(memory).isOver());
    long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(5);
    while (holder.get() != null && System.nanoTime() < end) {
      System.gc();
      Patience.sleep(1_000_000);
    }
    Leases.logOverdue();
    assertTrue(Leases.of(memory).isOver());
  }

  private WeakReference<HeldLeases> closeUnder(DeviceMemory memory) {
    HeldLeases other = new HeldLeases();
    other.hold(Leases.of(memory), Leases.of(stream));
    memory.close();
    return new WeakReference<>(other);
  }

  private static void meet(CyclicBarrier both) {
    try {
      both.await();
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }
}
