package org.nccl4j.device.host.symmetric;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.MappableSegment;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.SharedSegment;

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

  /** As a peer's process does, which keeps what it was told of mapped. */
  @Test
  void pagesOfDroppedMemoryThatOthersMapAreGivenBack() {
    try (MappedRegion mapped = mapAndDrop()) {
      while (NativeMemory.getByte(mapped.address()) != 0) { // until the timeout of the test
        System.gc();
      }
    }
  }

  private MappedRegion mapAndDrop() {
    HostMemory memory = allocations.allocate(5000, Runnable::run);
    memory.fill((byte) 7);
    memory.segment().offer();
    return map(memory);
  }

  private static MappedRegion map(HostMemory memory) {
    MappableSegment segment = memory.segment();
    MappedRegion mapped =
        SharedSegment.attachOf(ThisProcess.pid(), segment.descriptor(), segment.bytes());
    assertEquals(7, NativeMemory.getByte(mapped.address()));
    return mapped;
  }

  /** A window of it is mapped until all ranks have given the window up. */
  @Test
  void pagesOfMemoryThatWasNotOfferedStayWithWhoMapsThem() {
    HostMemory memory = allocations.allocate(5000, Runnable::run);
    memory.fill((byte) 7);
    try (MappedRegion mapped = map(memory)) {
      memory.close();
      assertEquals(7, NativeMemory.getByte(mapped.address()));
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
