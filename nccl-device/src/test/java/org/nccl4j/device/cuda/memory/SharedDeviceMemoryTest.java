package org.nccl4j.device.cuda.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.FakeCuda;
import org.nccl4j.device.cuda.FakeLibrary;
import org.nccl4j.device.shm.MappedRegion;

/** Sharing of GPU memory without file descriptors, with the recording driver. */
class SharedDeviceMemoryTest {
  private static final int BLOCK = 2 << 20;
  private static final int OUT_OF_MEMORY = 2;
  private static final int PEER_ACCESS_ALREADY_ENABLED = 704;

  private FakeLibrary fake;
  private CudaDevice device; // not the process's: what it found out must not stay
  private CudaDevice peer;
  private long live;

  @BeforeEach
  void start() {
    fake = FakeCuda.get();
    CudaDevices.probe();
    device = FakeCuda.device(0);
    peer = FakeCuda.device(1);
    device.gpu().hostCopies().stream();
    peer.gpu().hostCopies().stream();
    device.gpu().context();
    peer.gpu().context();
    live = FakeCuda.live();
    fake.fakeReset();
  }

  @AfterEach
  void nothingIsLeft() {
    if (fake != null) {
      assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
      fake.fakeReset();
      assertEquals(live, FakeCuda.live());
    }
  }

  private long calls(String name) {
    return fake.fakeRecord().lines().filter(line -> line.startsWith(name + "(")).count();
  }

  @Test
  void descriptorsAreTakenWhereTheyAreToBeHad() {
    try (SharedDeviceMemory memory = SharedDeviceMemory.allocate(device.gpu(), 1, true)) {
      assertInstanceOf(CudaShareableMemory.class, memory);
      assertEquals(1, calls("cuMemExportToShareableHandle"), "tried at once");
    }
    try (SharedDeviceMemory memory = SharedDeviceMemory.allocate(device.gpu(), 1, false)) {
      assertEquals(BLOCK, memory.size());
      assertEquals(1, calls("cuMemExportToShareableHandle"), "nobody needs it");
    }
    assertTrue(device.sharingAbsence().isEmpty());
  }

  /** The driver is not safe from threads that give up physical memory at the same time. */
  @Test
  void threadsThatFreeTakeTurns() {
    List<CompletableFuture<Void>> threads = new ArrayList<>();
    for (int thread = 0; thread < 4; thread++) {
      CudaDevice of = thread % 2 == 0 ? device : peer;
      threads.add(
          CompletableFuture.runAsync(
              () -> {
                for (int i = 0; i < 40; i++) {
                  SharedDeviceMemory.allocate(of.gpu(), 1, false).close();
                }
              },
              task -> new Thread(task).start()));
    }
    threads.forEach(CompletableFuture::join);
    assertEquals(160, calls("cuMemRelease"));
  }

  @ParameterizedTest
  @CsvSource({"cuMemCreate,801", "cuMemExportToShareableHandle,800", "cuMemMap,801"})
  void aRefusalIsRememberedWithItsReason(String call, int code) {
    fake.fakeFail(call, code);
    try (SharedDeviceMemory memory = SharedDeviceMemory.allocate(device.gpu(), 3, true)) {
      assertInstanceOf(CudaIpcMemory.class, memory);
      assertEquals(BLOCK, memory.size());
    }
    String reason = device.sharingAbsence().orElseThrow();
    assertTrue(reason.contains(call) && reason.contains("(" + code + ")"), reason);
    fake.fakeReset();
    try (SharedDeviceMemory memory = SharedDeviceMemory.allocate(device.gpu(), 3, true)) {
      assertInstanceOf(CudaIpcMemory.class, memory);
      assertEquals(0, calls("cuMemCreate"), "not tried again");
      assertEquals(1, calls("cuMemAlloc_v2"));
    }
  }

  @Test
  void tooLittleMemoryIsNoReasonForAnotherKind() {
    fake.fakeFail("cuMemCreate", OUT_OF_MEMORY);
    assertThrows(CudaException.class, () -> SharedDeviceMemory.allocate(device.gpu(), 3, true));
    assertEquals(0, calls("cuMemAlloc_v2"));
    assertTrue(device.sharingAbsence().isEmpty());
  }

  @Test
  void devicesOfTheProcessAreLetInOnce() {
    try (CudaIpcMemory memory = CudaIpcMemory.create(device.gpu(), 5)) {
      fake.fakeReset();
      assertEquals(memory.local().address(), memory.accessFrom(peer.gpu()).address());
      memory.accessFrom(peer.gpu());
      memory.accessFrom(device.gpu());
      assertEquals(1, calls("cuCtxEnablePeerAccess"));
      assertTrue(fake.fakeRecord().contains("cuCtxEnablePeerAccess(c000,0)"), fake.fakeRecord());
    }
  }

  @Test
  void accessThatIsThereAlreadyIsNoErrorAndARefusalIs() {
    try (CudaIpcMemory memory = CudaIpcMemory.create(device.gpu(), 5)) {
      fake.fakeFail("cuCtxEnablePeerAccess", 217);
      var error = assertThrows(CudaException.class, () -> memory.accessFrom(peer.gpu()));
      assertTrue(error.problem().contains("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"), error.problem());
      fake.fakeFail("cuCtxEnablePeerAccess", PEER_ACCESS_ALREADY_ENABLED);
      assertEquals(memory.local().address(), memory.accessFrom(peer.gpu()).address());
    }
  }

  /** The handle's bytes go through a call by value. */
  @Test
  void aHandleGivesTheSameMemory() {
    try (CudaIpcMemory owner = CudaIpcMemory.create(device.gpu(), BLOCK + 1)) {
      byte[] handle = owner.handle();
      assertEquals(64, handle.length);
      try (CudaIpcMemory other = CudaIpcMemory.importFrom(peer.gpu(), handle, owner.size())) {
        other.local().slice(2 * BLOCK - 1, 1).fill((byte) 7);
        ByteBuffer last = ByteBuffer.allocate(1);
        owner.local().read(2 * BLOCK - 1, last);
        assertEquals(7, last.get(0));
        assertTrue(fake.fakeRecord().contains("cuIpcOpenMemHandle_v2(1)"), fake.fakeRecord());
      }
      assertEquals(1, calls("cuIpcCloseMemHandle"));
      handle[63]++;
      assertThrows(CudaException.class, () -> openAndClose(handle));
      assertThrows(
          InvalidArgumentException.class,
          () -> CudaIpcMemory.importFrom(peer.gpu(), new byte[9], BLOCK));
    }
    live++; // the fake counts the handle that it refused after the call
  }

  private void openAndClose(byte[] handle) {
    CudaIpcMemory.importFrom(peer.gpu(), handle, BLOCK).close();
  }

  @Test
  void theHostsMemoryIsPinnedAndUnpinned() {
    MappedRegion region = MappedRegion.anonymous(8192);
    try (PinnedRegion pinned = PinnedRegion.of(device.gpu(), region.address(), 8192)) {
      assertEquals(region.address(), pinned.address());
      assertTrue(fake.fakeRecord().contains("cuMemHostRegister_v2(8192,3)"), fake.fakeRecord());
    }
    assertEquals(1, calls("cuMemHostUnregister"));
    fake.fakeFail("cuMemHostGetDevicePointer_v2", OUT_OF_MEMORY);
    assertThrows(CudaException.class, () -> PinnedRegion.of(device.gpu(), region.address(), 8192));
    assertEquals(2, calls("cuMemHostUnregister"), "undone");
    fake.fakeFail("cuMemHostRegister_v2", OUT_OF_MEMORY);
    var error =
        assertThrows(
            CudaException.class, () -> PinnedRegion.of(device.gpu(), region.address(), 8192));
    assertTrue(error.problem().contains("cuMemHostRegister of 8192 bytes"), error.problem());
    region.close();
  }
}
