package org.nccl4j.device.host.symmetric;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;

@Timeout(600)
class HostAllocationsTest {
  private static final long TERABYTE = 1L << 40;

  private final HostAllocations allocations = new HostAllocations(HostDevice.instance());

  @Test
  void memoryIsFoundByAnyOfItsAddressesUntilItIsClosed() {
    HostMemory memory = allocations.allocate(5000, Runnable::run);
    assertEquals(memory.address(), allocations.find(memory.address() + 4999).get().address());
    memory.close();
    assertEquals(Optional.empty(), allocations.find(memory.address()));
  }

  @Test
  void memoryInUseIsFoundWhateverIsCollected() {
    HostMemory memory = allocations.allocate(5000, Runnable::run);
    WeakReference<Object> other = new WeakReference<>(new Object());
    while (other.get() != null) { // until the timeout of the test
      System.gc();
    }
    assertTrue(allocations.find(memory.address()).isPresent());
    assertEquals(1, allocations.count());
    memory.close();
    assertEquals(0, allocations.count());
  }

  /** As allocate's: it is not kept for the sake of being found. */
  @Test
  void droppedMemoryIsForgotten() {
    long address = allocations.allocate(5000, Runnable::run).address();
    while (allocations.find(address).isPresent()) { // until the timeout of the test
      System.gc();
    }
  }

  /** The range of each rank has a stretch for each: with 8 ranks of a process there are 64. */
  @Test
  void aProcessHasTheAddressesForAllRanksOfAMachine() {
    for (int team : new int[] {1, 2, 4, 8, 64, 100}) {
      for (long memory : new long[] {0, 1L << 33, TERABYTE / 4, 2 * TERABYTE, 64 * TERABYTE}) {
        long stride = HostAllocations.stride(team, memory);
        assertEquals(0, stride % (1L << 32));
        assertTrue(stride > 0);
        assertTrue(team * team * stride <= 1L << 46, team + " ranks, " + memory);
        boolean all = team * team * (memory / team) < 1L << 45;
        assertTrue(!all || team * stride > memory, team + " ranks, " + memory);
      }
    }
    assertEquals(24L << 30, HostAllocations.stride(2, 23L << 30));
  }
}
