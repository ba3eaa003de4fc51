package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.SharingLibrary;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;
import org.nccl4j.device.shm.OwnedFd;

/** An error of any driver function reaches the caller, with the function's name. */
class CheckedCallsTest {
  private static final int OUT_OF_MEMORY = 2;
  private static final int BYTES = 1 << 20;

  private final FakeLibrary fake = FakeCuda.get();
  private final List<NcclException> heard = new ArrayList<>();

  @AfterEach
  void reset() {
    fake.fakeReset();
  }

  @Test
  void everyFunctionThatFailsIsNamed() {
    CudaDevices.probe().list().forEach(device -> device.gpu().context());
    everything(); // modules and contexts stay
    fake.fakeReset();
    everything();
    assertEquals(List.of(), heard);
    Set<String> called =
        fake.fakeRecord()
            .lines()
            .filter(line -> line.startsWith("cu"))
            .map(line -> line.substring(0, line.indexOf('(')))
            .collect(Collectors.toCollection(TreeSet::new));
    assertTrue(called.size() >= 35, called::toString);
    for (String function : called) {
      fake.fakeReset();
      heard.clear();
      fake.fakeFail(function, OUT_OF_MEMORY);
      everything();
      String name = function.replaceAll("_v2$", "");
      assertTrue(
          heard.stream().anyMatch(error -> error.problem().contains(name)),
          () -> function + " failed, and what was heard is " + heard);
    }
  }

  /** Calls after a failure are not checked. */
  private void tried(Runnable part) {
    try {
      part.run();
    } catch (NcclException e) {
      heard.add(e);
      for (Throwable also : e.getSuppressed()) {
        if (also instanceof NcclException other) {
          heard.add(other);
        }
      }
    }
  }

  private void everything() {
    CudaDevice device = CudaDevices.probe().device(0);
    tried(() -> memory(device));
    tried(() -> shared(device));
    tried(() -> streams(device));
    tried(() -> graphs(device));
    tried(device::memoryInfo);
    tried(() -> device.hostVisible(64).close());
    tried(() -> CudaLibrary.deviceName(CudaLibrary.device(0), 0));
    tried(() -> CudaLibrary.pciBusId(CudaLibrary.device(0), device));
    tried(CudaLibrary::driverVersion);
    tried(CudaLibrary::deviceCount);
  }

  private static void memory(CudaDevice device) {
    try (DeviceMemory memory = device.allocate(BYTES)) {
      memory.fill((byte) 1);
      memory.write(0, ByteBuffer.allocate(8));
      memory.read(0, ByteBuffer.allocate(8));
      device.objection(memory);
    }
  }

  private static void shared(CudaDevice device) {
    CudaShareableMemory memory = CudaShareableMemory.create(device.gpu(), BYTES);
    try (OwnedFd descriptor = new OwnedFd(memory.exportFileDescriptor())) {
      device
          .gpu()
          .context()
          .run(
              () ->
                  DriverLibrary.releaseMemory(
                      SharingLibrary.importFileDescriptor(descriptor.value(), device), device));
      memory.accessFrom(CudaDevices.probe().device(1).gpu());
      long address = memory.local().address();
      device.gpu().context().run(() -> DriverLibrary.addressRange(address, device));
    } finally {
      memory.close();
    }
  }

  private static void streams(CudaDevice device) {
    try (CudaStream stream = (CudaStream) device.createStream();
        DeviceEvent start = device.createEvent();
        DeviceEvent end = device.createEvent();
        DeviceMemory from = device.allocate(64);
        DeviceMemory to = device.allocate(64)) {
      stream.record(start);
      stream.copy(from, to);
      stream.record(end);
      stream.await(end);
      stream.isIdle();
      stream.isCapturing();
      end.microsecondsSince(start);
      stream.launchHostFunction(() -> {});
      stream.synchronize();
      device
          .gpu()
          .context()
          .run(
              () -> {
                DriverLibrary.streamWrite(stream.handle(), to.address(), 1, true, device);
                DriverLibrary.streamWait(stream.handle(), to.address(), 1, true, device);
                DriverLibrary.streamWrite(stream.handle(), to.address(), 1, false, device);
                DriverLibrary.streamWait(stream.handle(), to.address(), 1, false, device);
                DriverLibrary.copyAsync(to.address(), from.address(), 64, stream.handle(), device);
              });
    }
  }

  private static void graphs(CudaDevice device) {
    try (CudaStream stream = (CudaStream) device.createStream()) {
      stream.beginCapture();
      try (CudaGraph graph = stream.endCapture()) {
        graph.launch(stream);
      }
    }
  }
}
