package org.nccl4j.device.cuda.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.FakeCuda;
import org.nccl4j.device.cuda.driver.GpuDirect;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.shm.OwnedFd;

/** Memory that network cards are given, against the recording driver. */
class RdmaMemoryTest extends AgainstFakeCuda {
  private static final int BLOCK = 2 << 20;
  private static final int NOT_SUPPORTED = 801;
  private static final int OUT_OF_MEMORY = 2;

  private static CudaDevice device() {
    return CudaDevices.probe().device(1);
  }

  private List<String> calls() {
    return fake.fakeRecord().lines().filter(call -> call.startsWith("cuMem")).toList();
  }

  /**
   * Descriptors of the fake's memory. Others may be closed at any time, such as a process's pipes.
   */
  private static long descriptors() throws Exception {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.filter(RdmaMemoryTest::isOfTheFake).count();
    }
  }

  private static boolean isOfTheFake(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString().startsWith("/memfd:fake");
    } catch (IOException e) {
      return false; // closed by now
    }
  }

  @Test
  void theGpusMemoryLiesBehindTheHosts() {
    fake.fakeReset();
    try (RdmaMemory memory = RdmaMemory.create(device().gpu(), 1, BLOCK + 1);
        RdmaMemory.Range range = memory.map()) {
      assertEquals(2 * BLOCK, memory.gpuBytes());
      List<String> made =
          List.of(
              "cuMemGetAllocationGranularity(1,0,1,1,0)",
              "cuMemGetAllocationGranularity(1,0,3,0,0)",
              "cuMemCreate(2097152,1,0,3,0,0,0)",
              "cuMemCreate(4194304,1,0,1,1,0,0)");
      List<String> mapped =
          List.of(
              "cuMemAddressReserve(6291456,2097152,0,0)",
              "cuMemMap(2097152,0,0)",
              "cuMemSetAccess(2097152,1,1,3,2)",
              "cuMemMap(4194304,0,0)",
              "cuMemSetAccess(4194304,1,1,3,1)");
      List<String> calls =
          calls().stream().filter(call -> !call.startsWith("cuMemcpyAsync")).toList();
      assertEquals(made, calls.subList(0, 4));
      assertEquals(mapped, calls.subList(4, 9), "for a trial");
      assertEquals(mapped, calls.subList(calls.size() - 5, calls.size()), "to stay");
      assertEquals(2, calls().size() - calls.size(), "copies of the trial");
      DeviceMemory words = range.seen(-16, 16);
      DeviceMemory slots = range.seen(0, 16);
      assertEquals(slots.address(), words.address() + 16);
      assertEquals(range.boundary(), slots.address());
      assertEquals(device(), slots.device());
    }
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void everyMappingShowsTheSameMemoryAndKeepsIt() {
    RdmaMemory memory = RdmaMemory.create(device().gpu(), BLOCK, BLOCK);
    try (RdmaMemory.Range first = memory.map();
        RdmaMemory.Range second = memory.map()) {
      memory.close();
      for (long offset : new long[] {-8, 0}) {
        HostDevice.instance().wrap(first.boundary() + offset, 1).fill((byte) (9 + offset));
        ByteBuffer seen = ByteBuffer.allocate(1);
        HostDevice.instance().wrap(second.boundary() + offset, 1).read(0, seen);
        assertEquals(9 + offset, seen.get(0));
      }
      assertThrows(InvalidUsageException.class, memory::map);
    }
  }

  @Test
  void anotherGpuMapsWhatIsShared() throws Exception {
    long before = descriptors();
    fake.fakeReset();
    try (RdmaMemory memory = RdmaMemory.createShared(device().gpu(), BLOCK, 2 * BLOCK);
        RdmaMemory.Range own = memory.map()) {
      assertTrue(fake.fakeRecord().contains("cuMemCreate(2097152,1,1,3,0,0,0)"), "of the host");
      assertTrue(fake.fakeRecord().contains("cuMemCreate(4194304,1,1,1,1,0,0)"), "of the GPU");
      List<OwnedFd> exported = memory.export();
      CudaDevice other = CudaDevices.probe().device(0);
      try (RdmaMemory imported =
              RdmaMemory.importFrom(
                  other.gpu(), memory.shared(), exported.get(0).value(), exported.get(1).value());
          RdmaMemory.Range range = imported.map()) {
        exported.forEach(OwnedFd::close);
        assertEquals(other, range.seen(0, 8).device());
        for (long offset : new long[] {-8, 0}) {
          HostDevice.instance().wrap(range.boundary() + offset, 1).fill((byte) (9 + offset));
          ByteBuffer seen = ByteBuffer.allocate(1);
          HostDevice.instance().wrap(own.boundary() + offset, 1).read(0, seen);
          assertEquals(9 + offset, seen.get(0));
        }
      }
      fake.fakeFail("cuMemExportToShareableHandle", NOT_SUPPORTED);
      assertThrows(CudaException.class, memory::export);
    }
    assertEquals(before, descriptors());
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void aDmaBufIsOfTheGpusMemoryAlone() throws Exception {
    long before = descriptors();
    try (RdmaMemory memory = RdmaMemory.create(device().gpu(), BLOCK, 2 * BLOCK);
        RdmaMemory.Range range = memory.map()) {
      long open = descriptors();
      try (OwnedFd dmaBuf = range.exportDmaBuf()) {
        assertTrue(dmaBuf.value() > 0);
        assertTrue(fake.fakeRecord().contains("cuMemGetHandleForAddressRange(4194304,1,0)"));
      }
      assertEquals(open, descriptors());
      fake.fakeFail("cuMemGetHandleForAddressRange", NOT_SUPPORTED);
      CudaException e = assertThrows(CudaException.class, range::exportDmaBuf);
      assertTrue(e.problem().contains("cuMemGetHandleForAddressRange"), e.problem());
    }
    assertEquals(before, descriptors());
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void memoryThatIsNotWhatItShouldBeIsGivenBack() {
    fake.fakeCorrupt(1);
    CudaException e = assertThrows(CudaException.class, RdmaMemoryTest::makeAndMap);
    assertTrue(e.problem().contains("and the processor see different memory"), e.problem());
  }

  /** Of the calls that make and try it, see above, each fails once. */
  @Test
  void whateverFailsInTheMiddleIsUndone() {
    for (int call = 1; call <= 11; call++) {
      long before = FakeCuda.live();
      fake.fakeFailNth(call, OUT_OF_MEMORY);
      CudaException e = assertThrows(CudaException.class, RdmaMemoryTest::makeAndMap);
      assertEquals(OUT_OF_MEMORY, e.result());
      assertEquals(before, FakeCuda.live(), e.problem());
    }
    fake.fakeReset();
    makeAndMap();
  }

  private static void makeAndMap() {
    try (RdmaMemory memory = RdmaMemory.create(device().gpu(), BLOCK, BLOCK)) {
      memory.map().close();
    }
  }

  @Test
  void whatADeviceOffersIsAsked() {
    assertEquals(new GpuDirect("", "", true, true), GpuDirect.of(device().gpu()));
    fake.fakeLack(124);
    assertEquals(new GpuDirect("", "", true, false), GpuDirect.of(device().gpu()));
    fake.fakeLack(116);
    assertEquals(new GpuDirect("", "", false, true), GpuDirect.of(device().gpu()));
  }

  @ParameterizedTest
  @CsvSource({"102,virtual memory", "110,virtual memory", "141,CUDA 12.2"})
  void whatADeviceLacksIsSaid(int attribute, String reason) {
    fake.fakeLack(attribute);
    GpuDirect found = GpuDirect.of(device().gpu());
    assertTrue(found.slotAbsence().contains(reason), found.slotAbsence());
    boolean ofBuffers = attribute == 141; // users' memory needs no words beside it
    assertEquals(ofBuffers, found.absence().isEmpty(), found.absence());
    assertEquals(ofBuffers, found.peerMemory() && found.dmaBufs());
  }

  @Test
  void anOldDriverThatKnowsNoneOfTheAttributesOffersNothing() {
    fake.fakeFail("cuDeviceGetAttribute", 1);
    assertTrue(GpuDirect.of(device().gpu()).absence().contains("lets no NIC"));
  }

  @Test
  void nothingIsAskedForInVain() {
    assertThrows(InvalidArgumentException.class, () -> RdmaMemory.create(device().gpu(), 0, 1));
    assertThrows(InvalidArgumentException.class, () -> RdmaMemory.create(device().gpu(), 1, 0));
  }
}
