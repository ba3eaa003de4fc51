package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import java.util.regex.Pattern;
import jcuda.driver.CUstream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Closed handles never reach the driver, which would read the memory of a destroyed handle. */
class ClosedHandlesTest extends AgainstFakeCuda {
  private static final Pattern OF_HANDLES =
      Pattern.compile("^cu(Stream|Event|Graph|Memcpy|Launch|ThreadExchange)");

  private CudaDevice device;

  @BeforeEach
  void chooseDevice() {
    device = CudaDevices.probe().device(0);
  }

  /** Other threads may ask the driver of devices meanwhile. */
  private List<String> ofHandles() {
    return fake.fakeRecord().lines().filter(call -> OF_HANDLES.matcher(call).find()).toList();
  }

  private void assertRefused(Runnable call) {
    fake.fakeReset();
    InvalidUsageException e = assertThrows(InvalidUsageException.class, call::run);
    assertEquals(ErrorId.CLOSED, e.id());
    assertEquals(List.of(), ofHandles(), "nothing is asked of the driver");
  }

  @Test
  void streams() {
    CudaStream owned = (CudaStream) device.createStream();
    CudaStream users = device.wrap(new CUstream());
    try (DeviceMemory memory = device.allocate(8);
        DeviceEvent event = device.createEvent()) {
      for (CudaStream stream : List.of(owned, users)) {
        stream.close();
        assertRefused(() -> stream.record(event));
        assertRefused(() -> stream.await(event));
        assertRefused(() -> stream.copy(memory, memory));
        assertRefused(() -> stream.launchHostFunction(() -> {}));
        assertRefused(stream::beginCapture);
        assertRefused(stream::endCapture);
        fake.fakeReset();
        stream.synchronize();
        stream.synchronize(Duration.ofSeconds(1));
        assertTrue(stream.isIdle());
        assertFalse(stream.isCapturing());
        stream.close();
        assertEquals(List.of(), ofHandles());
      }
    }
  }

  @Test
  void events() {
    DeviceEvent event = device.createEvent();
    event.close();
    try (DeviceStream stream = device.createStream();
        DeviceEvent other = device.createEvent()) {
      assertRefused(() -> stream.record(event));
      assertRefused(() -> stream.await(event));
      assertRefused(event::isComplete);
      assertRefused(event::synchronize);
      assertRefused(() -> event.microsecondsSince(other));
      assertThrows(InvalidUsageException.class, () -> other.microsecondsSince(event));
    }
  }

  @Test
  void graphs() {
    try (DeviceStream made = device.createStream();
        DeviceStream foreign = CudaDevices.probe().device(1).createStream();
        DeviceMemory memory = device.allocate(8)) {
      CudaStream stream = (CudaStream) made;
      stream.beginCapture();
      stream.copy(memory, memory);
      CudaGraph graph = stream.endCapture();
      CudaStream closed = (CudaStream) device.createStream();
      closed.close();
      assertRefused(() -> graph.launch(closed));
      assertThrows(InvalidArgumentException.class, () -> graph.launch((CudaStream) foreign));
      assertThrows(InvalidArgumentException.class, () -> graph.launch(null));
      graph.close();
      assertRefused(() -> graph.launch(stream));
    }
  }

  @Test
  void operationsIntoAClosedStreamAndCopiesOfClosedMemory() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DeviceMemory memory = device.allocate(4000);
        DeviceStream open = device.createStream()) {
      CudaKernelCommunicator communicator = ranks.communicators.get(0);
      KernelPlan plan =
          communicator.prepare(
              new CollectiveWork(
                  Operation.ALL_REDUCE,
                  Algorithm.RING,
                  Protocol.SIMPLE,
                  DataType.FLOAT32,
                  RedOp.SUM,
                  0,
                  1000,
                  4,
                  1 << 20));
      DeviceStream closed = device.createStream();
      closed.close();
      assertRefused(() -> communicator.launch(plan, memory, memory, closed));
      DeviceMemory freed = device.allocate(4000);
      freed.close();
      assertRefused(() -> open.copy(freed, memory));
      assertRefused(() -> open.copy(memory, freed));
    }
  }

  /** Memory closed during a call is freed after it, by a thread that may wait for operations. */
  @Test
  void whatIsClosedUnderACall() throws Exception {
    DeviceMemory memory = device.allocate(4000);
    DeviceStream stream = device.createStream();
    fake.fakeReset();
    assertTrue(Leases.of(memory).begin());
    assertTrue(Leases.of(stream).begin());
    memory.close();
    stream.close();
    assertEquals("", fake.fakeRecord());
    assertThrows(InvalidUsageException.class, () -> memory.fill((byte) 0));
    Leases.of(memory).end();
    Leases.of(stream).end();
    FakeCuda.awaitFrees();
    List<String> calls = fake.fakeRecord().lines().map(call -> call.split("\\(")[0]).toList();
    assertTrue(calls.contains("cuMemFree_v2"), calls.toString());
    assertTrue(calls.contains("cuStreamDestroy_v2"), calls.toString());
    assertTrue(
        calls.indexOf("cuStreamSynchronize") < calls.indexOf("cuStreamDestroy_v2"),
        calls.toString());
  }
}
