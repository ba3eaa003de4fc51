package org.nccl4j.device.cuda.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.FakeCuda;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.ShareableMemory;

/** Windows' memory against the recording driver, whose physical memory is mapped for real. */
class FlatRangeTest extends AgainstFakeCuda {
  private static final long STRIDE = 1L << 32;
  private static final long GRANULE = 2 << 20;
  private CudaDevice first;
  private CudaDevice second;

  @BeforeEach
  void twoDevices() {
    first = CudaDevices.probe().device(0);
    second = CudaDevices.probe().device(1);
  }

  private static int byteAt(DeviceMemory memory, long offset) {
    ByteBuffer one = ByteBuffer.allocate(1);
    memory.read(offset, one);
    return one.get(0);
  }

  @Test
  void aRankMapsItsOwnAndItsPeersMemoryAStrideApart() {
    try (DeviceMemory mine = first.memAlloc(3 << 20);
        DeviceMemory theirs = second.memAlloc(3 << 20);
        FlatRange range = first.reserve(2, 1)) {
      assertEquals(STRIDE, range.stride(), "rounded up");
      ShareableMemory a = first.exportable(mine).orElseThrow();
      ShareableMemory b = second.exportable(theirs).orElseThrow();
      assertEquals(2 * GRANULE, a.size());
      DeviceMemory own = range.map(0, GRANULE, a);
      DeviceMemory peer = range.map(1, GRANULE, b);
      assertEquals(STRIDE, peer.address() - own.address());
      assertEquals(range.address() + GRANULE, own.address());
      peer.slice(0, 5).fill((byte) 3);
      assertEquals(3, byteAt(theirs, 4));
      assertTrue(fake.fakeRecord().contains("cuMemSetAccess(4194304,1,0,3,1)"), "for the first");
      range.unmap(1, GRANULE, peer.size());
      a.release();
      b.release();
    }
  }

  @Test
  void anotherProcessesMemoryComesByDescriptor() {
    try (DeviceMemory memory = second.memAlloc(100);
        FlatRange range = first.reserve(2, STRIDE)) {
      ShareableMemory exported = second.exportable(memory.slice(50, 10)).orElseThrow();
      assertEquals(memory.address(), exported.address());
      try (OwnedFd descriptor = new OwnedFd(exported.exportFileDescriptor())) {
        DeviceMemory view = range.map(1, 0, descriptor.value(), exported.size());
        view.slice(7, 1).fill((byte) 8);
        assertEquals(8, byteAt(memory, 7));
      }
      exported.release();
      exported.release();
    }
  }

  @Test
  void theSameAllocationHasTheSameNumber() {
    try (DeviceMemory memory = first.memAlloc(100);
        DeviceMemory other = first.memAlloc(100)) {
      ShareableMemory one = first.exportable(memory).orElseThrow();
      ShareableMemory again = first.exportable(memory.slice(64, 1)).orElseThrow();
      ShareableMemory another = first.exportable(other).orElseThrow();
      assertEquals(one.number(), again.number());
      assertTrue(one.number() != another.number());
      one.release();
      again.release();
      another.release();
    }
  }

  @Test
  void ordinaryMemoryIsNotExportable() {
    try (DeviceMemory memory = first.allocate(100)) {
      assertTrue(first.exportable(memory).isEmpty());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuMemMap", "cuMemSetAccess", "cuMemImportFromShareableHandle"})
  void whatFailsHalfWayIsUndone(String call) {
    try (DeviceMemory memory = first.memAlloc(100);
        FlatRange range = first.reserve(2, STRIDE)) {
      ShareableMemory exported = first.exportable(memory).orElseThrow();
      try (OwnedFd descriptor = new OwnedFd(exported.exportFileDescriptor())) {
        long before = FakeCuda.live();
        fake.fakeFail(call, 2);
        assertThrows(
            CudaException.class, () -> range.map(1, 0, descriptor.value(), exported.size()));
        fake.fakeReset();
        assertEquals(before, FakeCuda.live());
      }
      exported.release();
    }
  }
}
