package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import jcuda.driver.CUresult;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.memory.CudaMemory;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;
import org.nccl4j.device.cuda.stream.HostFunctions;
import org.nccl4j.device.shm.OwnedFd;

/**
 * The two ways to the driver against a recording fake of it: arguments, order, clean-up, errors.
 */
class DriverTest {
  private static final int OUT_OF_MEMORY = 2;

  private FakeLibrary fake;
  private CudaDevice device;
  private long live;

  @BeforeEach
  void start() {
    fake = FakeCuda.get();
    device = CudaDevices.probe().device(0);
    device.gpu().context();
    CudaDevices.probe().list().forEach(each -> each.gpu().hostCopies().stream());
    live = FakeCuda.live();
    fake.fakeReset();
  }

  @AfterEach
  void nothingIsLeft() {
    if (fake != null) {
      fake.fakeReset();
      assertEquals(live, FakeCuda.live());
    }
  }

  @Test
  void devicesAreFoundWithTheirProperties() {
    CudaDevices devices = CudaDevices.probe();
    assertTrue(devices.absence().isEmpty());
    assertEquals(2, devices.list().size());
    assertEquals("Fake GPU 0", device.name());
    assertEquals("0000:0a:00.0", device.pciBusId());
    assertEquals(90, device.computeCapability());
    assertEquals(132, device.multiprocessors());
    assertTrue(device.canAccess(devices.device(1)));
    assertEquals(2000, device.memoryInfo()[1]);
    var error = assertThrows(InvalidArgumentException.class, () -> devices.device(2));
    assertTrue(error.remedy().contains("0 to 1"));
  }

  @Test
  void memoryIsZeroedCopiedAndFreedOnce() {
    DeviceMemory memory = device.allocate(100);
    assertTrue(
        fake.fakeRecord().replaceAll("cuCtx.*\n", "").contains("cuMemAlloc_v2(100)\ncuMemset"),
        fake.fakeRecord());
    memory.write(10, ByteBuffer.wrap(new byte[] {1, 2, 3}));
    ByteBuffer read = ByteBuffer.allocateDirect(4);
    DeviceMemory slice = memory.slice(10, 20);
    slice.read(0, read);
    assertEquals(ByteBuffer.wrap(new byte[] {1, 2, 3, 0}), read.flip());
    assertThrows(InvalidArgumentException.class, () -> memory.slice(90, 11));
    memory.close();
    memory.close();
    assertFalse(slice.isOpen());
    assertThrows(InvalidUsageException.class, () -> slice.fill((byte) 1));
    assertEquals(1, fake.fakeRecord().split("cuMemFree_v2\\(").length - 1);
  }

  @Test
  void addressesThatAreNotTheDevicesAreObjectedTo() {
    try (DeviceMemory own = device.allocate(100);
        DeviceMemory mapped = device.memAlloc(100);
        DeviceMemory other = CudaDevices.probe().device(1).allocate(100)) {
      assertEquals(Optional.empty(), device.objection(own));
      assertEquals(Optional.empty(), device.objection(own.slice(10, 90)));
      assertEquals(Optional.empty(), device.objection(mapped));
      assertEquals(Optional.empty(), device.objection(device.wrap(0, 0)));
      String foreign = device.objection(device.wrap(other.address(), 100)).orElseThrow();
      assertTrue(foreign.contains("is of device 1's memory, not of CUDA device 0"), foreign);
      Gpu gpu = device.gpu();
      String longer = device.objection(CudaMemory.wrap(gpu, own.address(), 1L << 40)).orElseThrow();
      assertTrue(longer.contains("is unknown to the CUDA driver"), longer);
      String host =
          device.objection(CudaMemory.wrap(gpu, new Offheap(64).address(), 64)).orElseThrow();
      assertTrue(host.contains("it is host memory, or was freed"), host);
    }
  }

  @Test
  void theCallersContextIsRestored() {
    DriverLibrary.setCurrentContext(0xabc);
    device.allocate(8).close();
    assertEquals(0xabc, DriverLibrary.currentContext(new Offheap(8)));
    DriverLibrary.setCurrentContext(0);
  }

  @Test
  void anErrorSaysWhatWhereAndWhatToDo() {
    fake.fakeFail("cuMemAlloc_v2", OUT_OF_MEMORY);
    var error = assertThrows(CudaException.class, () -> device.allocate(1 << 20));
    assertTrue(error.problem().contains("cuMemAlloc of 1048576 bytes"), error.problem());
    assertTrue(error.problem().contains("CUDA device 0 (Fake GPU 0)"), error.problem());
    assertTrue(error.problem().contains("CUDA_ERROR_OUT_OF_MEMORY"), error.problem());
    assertTrue(error.remedy().contains("free device memory"), error.remedy());
  }

  @Test
  void shareableMemoryIsCreatedMappedAndUndoneInOrder() {
    int granule = 2 << 20;
    CudaShareableMemory memory = CudaShareableMemory.create(device.gpu(), 3 << 20);
    assertEquals(2L * granule, memory.size());
    new OwnedFd(memory.exportFileDescriptor()).close();
    DeviceMemory view = memory.accessFrom(CudaDevices.probe().device(1).gpu());
    assertEquals(memory.local().address(), view.address());
    memory.accessFrom(CudaDevices.probe().device(1).gpu());
    memory.close();
    memory.close();
    String calls =
        fake.fakeRecord()
            .lines()
            .filter(line -> line.startsWith("cuMem") && !line.contains("Granularity"))
            .map(line -> line.replaceAll("(cuMemset.*),(?!0\\))[0-9a-f]+\\)", "$1,own)"))
            .reduce("", (a, b) -> a + b + " ");
    assertEquals(
        "cuMemCreate(4194304,1,1,1,0,0,0) cuMemAddressReserve(4194304,2097152,0,0)"
            + " cuMemMap(4194304,0,0) cuMemSetAccess(4194304,1,0,3,1)"
            + " cuMemsetD8Async(0,4194304,own) cuMemExportToShareableHandle(1,0)"
            + " cuMemSetAccess(4194304,1,1,3,1) cuMemUnmap(4194304) cuMemAddressFree(4194304)"
            + " cuMemRelease() ",
        calls);
  }

  @Test
  void importedMemoryIsMapped() {
    try (CudaShareableMemory exported = CudaShareableMemory.create(device.gpu(), 2 << 20);
        OwnedFd descriptor = new OwnedFd(exported.exportFileDescriptor());
        CudaShareableMemory memory =
            CudaShareableMemory.importFrom(device.gpu(), descriptor.value(), 2 << 20)) {
      String call = "cuMemImportFromShareableHandle(%d,1)".formatted(descriptor.value());
      assertTrue(fake.fakeRecord().contains(call), fake.fakeRecord());
      memory.local().fill((byte) 7);
      ByteBuffer last = ByteBuffer.allocate(1);
      exported.local().read((2 << 20) - 1, last);
      assertEquals(7, last.get(0), "the same memory");
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"})
  void whatFailsHalfWayIsUndone(String call) {
    fake.fakeFail(call, OUT_OF_MEMORY);
    var error =
        assertThrows(CudaException.class, () -> CudaShareableMemory.create(device.gpu(), 1 << 20));
    assertTrue(error.problem().contains(call), error.problem());
  }

  @Test
  void streamsEventsAndHostFunctions() {
    DeviceMemory from = device.allocate(64);
    DeviceMemory to = device.allocate(64);
    from.fill((byte) 9);
    DeviceEvent start = device.createEvent();
    DeviceEvent end = device.createEvent();
    try (CudaStream stream = (CudaStream) device.createStream()) {
      stream.record(start);
      stream.copy(from, to);
      stream.record(end);
      stream.await(end);
      stream.synchronize(Duration.ofSeconds(1));
      assertTrue(stream.isIdle());
      assertEquals(1500, end.microsecondsSince(start));
      AtomicInteger called = new AtomicInteger();
      stream.launchHostFunction(called::incrementAndGet);
      assertEquals(1, called.get());
      for (boolean worse : new boolean[] {false, true}) {
        stream.launchHostFunction(
            () -> {
              if (worse) {
                throw new AssertionError("from a host function");
              }
              throw new IllegalStateException("from a host function");
            });
        var thrown = assertThrows(InvalidUsageException.class, stream::synchronize);
        assertEquals(ErrorId.USER_FUNCTION, thrown.id());
        assertTrue(thrown.getMessage().contains("from a host function"), thrown.getMessage());
        stream.synchronize();
      }
      assertThrows(InvalidArgumentException.class, () -> stream.copy(from, to.slice(0, 8)));
    }
    ByteBuffer read = ByteBuffer.allocate(64);
    to.read(0, read);
    assertEquals(9, read.get(63));
    List.of(start, end).forEach(DeviceEvent::close);
    from.close();
    to.close();
    assertTrue(fake.fakeRecord().contains("cuStreamCreate(1)"), "does not wait for stream 0");
  }

  /** On a thread of the driver's, which this process did not make. */
  @Test
  void aFunctionInAGraphIsCalledAtEachLaunch() {
    int before = HostFunctions.waiting();
    AtomicInteger called = new AtomicInteger();
    try (CudaStream stream = (CudaStream) device.createStream()) {
      stream.launchHostFunction(called::incrementAndGet);
      assertEquals(before, HostFunctions.waiting(), "the driver calls it once");
      stream.beginCapture();
      stream.launchHostFunction(called::incrementAndGet);
      try (CudaGraph graph = stream.endCapture()) {
        assertEquals(1, called.get());
        graph.launch(stream);
        graph.launch(stream);
        assertEquals(before + 1, HostFunctions.waiting());
      }
      assertEquals(before, HostFunctions.waiting(), "the graph has ended");
      stream.beginCapture();
      stream.launchHostFunction(called::incrementAndGet);
      fake.fakeFail("cuStreamEndCapture", CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      assertThrows(CudaException.class, stream::endCapture);
      fake.fakeFail("", 0);
      assertEquals(before, HostFunctions.waiting(), "there is no graph");
      stream.beginCapture();
      stream.launchHostFunction(called::incrementAndGet);
      fake.fakeFail("cuGraphRetainUserObject", CUresult.CUDA_ERROR_OUT_OF_MEMORY);
      assertThrows(CudaException.class, stream::endCapture);
      fake.fakeFail("", 0);
      assertEquals(before, HostFunctions.waiting(), "its end cannot be awaited");
    }
    assertEquals(3, called.get());
  }

  @Test
  void aFailedStreamOrEventIsAnError() {
    fake.fakeFail("cuStreamCreate", OUT_OF_MEMORY);
    assertThrows(CudaException.class, device::createStream);
    fake.fakeFail("cuEventCreate", OUT_OF_MEMORY);
    assertThrows(CudaException.class, device::createEvent);
  }

  @Test
  void graphsAreCapturedLaunchedAndFreed() {
    try (CudaStream stream = (CudaStream) device.createStream()) {
      stream.beginCapture();
      try (CudaGraph graph = stream.endCapture()) {
        graph.launch(stream);
      }
      stream.beginCapture();
      fake.fakeFail("cuGraphInstantiate", OUT_OF_MEMORY);
      assertThrows(CudaException.class, stream::endCapture);
    }
    assertTrue(fake.fakeRecord().contains("cuStreamBeginCapture_v2("), fake.fakeRecord());
  }
}
