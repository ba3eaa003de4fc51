package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.ShareableMemory;

/** Memory that other hosts map, against the recording driver. */
class FabricHandlesTest extends AgainstFakeCuda {
  private static final int NONE = 0;
  private static final int ALL = 1;
  private static final int REFUSED = 2;
  private static final int OUT_OF_MEMORY = 2;
  private static final String BOTH_TYPES = "cuMemCreate(2097152,1,9,1,0,0,0)";
  private static final String DESCRIPTORS = "cuMemCreate(2097152,1,1,1,0,0,0)";

  private CudaDevice device; // not the process's: what it found out must not stay

  @BeforeEach
  void newDevice() {
    device = fresh(0);
    device.gpu().context();
    fake.fakeReset();
  }

  private CudaShareableMemory forFabric() {
    fake.fakeFabric(ALL);
    return CudaShareableMemory.createForFabric(device.gpu());
  }

  @Test
  void onlyWhereItIsAskedForMemoryHasAFabricHandle() {
    fake.fakeFabric(ALL);
    CudaShareableMemory.create(device.gpu(), 1).close();
    assertTrue(fake.fakeRecord().contains(DESCRIPTORS), "this machine has no fabric");
    forFabric().close();
    assertTrue(fake.fakeRecord().contains(BOTH_TYPES), fake.fakeRecord());
    fake.fakeReset();
    fake.fakeFabric(ALL);
    device.memAlloc(1).close();
    assertTrue(fake.fakeRecord().contains(BOTH_TYPES), "later memory too");
  }

  @Test
  void whatIsExportedIsMappedByItsBytes() {
    try (CudaShareableMemory owner = forFabric()) {
      byte[] handle = owner.exportFabricHandle();
      assertEquals(64, handle.length);
      assertArrayEquals(handle, owner.exportFabricHandle());
      try (CudaShareableMemory other =
          CudaShareableMemory.importFrom(device.gpu(), handle, owner.size())) {
        other.local().slice(owner.size() - 1, 1).fill((byte) 7);
        ByteBuffer last = ByteBuffer.allocate(1);
        owner.local().read(owner.size() - 1, last);
        assertEquals(7, last.get(0));
      }
      handle[63]++;
      var error =
          assertThrows(
              CudaException.class,
              () -> CudaShareableMemory.importFrom(device.gpu(), handle, owner.size()));
      assertTrue(error.problem().contains("of a fabric handle"), error.problem());
      assertThrows(
          InvalidArgumentException.class,
          () -> CudaShareableMemory.importFrom(device.gpu(), new byte[63], owner.size()));
    }
  }

  @Test
  void windowsMapIt() {
    forFabric().close();
    try (DeviceMemory memory = device.memAlloc(100);
        FlatRange range = device.reserve(2, 1L << 32)) {
      ShareableMemory exported = device.exportable(memory).orElseThrow();
      byte[] handle = exported.exportFabricHandle().orElseThrow();
      DeviceMemory view = range.map(1, 0, handle, exported.size());
      view.slice(99, 1).fill((byte) 3);
      ByteBuffer last = ByteBuffer.allocate(1);
      memory.read(99, last);
      assertEquals(3, last.get(0));
      fake.fakeFail("cuMemSetAccess", OUT_OF_MEMORY);
      assertThrows(CudaException.class, () -> range.map(0, 0, handle, exported.size()));
      exported.release();
    }
  }

  @Test
  void memoryOfBeforeHasNone() {
    try (DeviceMemory memory = device.memAlloc(100)) {
      ShareableMemory exported = device.exportable(memory).orElseThrow();
      assertTrue(exported.exportFabricHandle().isEmpty());
      exported.release();
    }
  }

  /** Without an IMEX channel. */
  @Test
  void aRefusalLeavesDescriptors() {
    fake.fakeFabric(REFUSED);
    var error =
        assertThrows(
            InvalidUsageException.class, () -> CudaShareableMemory.createForFabric(device.gpu()));
    assertTrue(error.problem().contains("cuMemCreate of 2097152 bytes with a fabric handle"));
    assertTrue(fake.fakeRecord().contains(BOTH_TYPES), fake.fakeRecord());
    fake.fakeReset();
    fake.fakeFabric(REFUSED);
    try (CudaShareableMemory memory = CudaShareableMemory.create(device.gpu(), 1)) {
      assertTrue(fake.fakeRecord().contains(DESCRIPTORS), fake.fakeRecord());
      assertFalse(fake.fakeRecord().contains(BOTH_TYPES), "not tried again");
      assertThrows(CudaException.class, memory::exportFabricHandle);
    }
  }

  @Test
  void aDriverWithoutThemIsNotTried() {
    fake.fakeFabric(NONE);
    assertThrows(
        InvalidUsageException.class, () -> CudaShareableMemory.createForFabric(device.gpu()));
    assertFalse(fake.fakeRecord().contains(BOTH_TYPES), fake.fakeRecord());
    fake.fakeFail("cuDeviceGetAttribute", 1);
    assertTrue(
        device.gpu().fabricHandles().lack().isPresent(), "one that does not know the attribute");
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuMemCreate", "cuMemAddressReserve", "cuMemMap"})
  void tooLittleMemoryIsNoRefusal(String call) {
    fake.fakeFabric(ALL);
    fake.fakeFail(call, OUT_OF_MEMORY);
    assertThrows(CudaException.class, () -> CudaShareableMemory.createForFabric(device.gpu()));
    assertTrue(device.gpu().fabricHandles().absence().isEmpty(), "it is still to be had");
  }
}
