package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.kenai.jffi.MemoryIO;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.KernelPlan;

/** Memory, streams and events that other libraries have made, as plain numbers. */
class ForeignHandlesTest extends AgainstFakeCuda {
  private CudaDevice device;

  @BeforeEach
  void chooseDevice() {
    device = CudaDevices.probe().device(0);
  }

  private void assertRefused(ErrorId id, String problem, Runnable call) {
    fake.fakeReset();
    InvalidArgumentException e = assertThrows(InvalidArgumentException.class, call::run);
    assertEquals(id, e.id());
    assertTrue(e.problem().contains(problem), e.problem());
    assertFalse(e.remedy().isEmpty());
    List<String> changing =
        fake.fakeRecord()
            .lines()
            .filter(line -> line.matches("cu(Launch|Event|Mem|Stream(?!GetCtx)).*"))
            .toList();
    assertEquals(List.of(), changing, "nothing is launched or changed");
  }

  @Test
  void memoryThatTheDriverDoesNotKnow() {
    Offheap host = new Offheap(64);
    assertRefused(ErrorId.BUFFER, "does not know them", () -> device.wrap(host.address(), 64));
    assertRefused(ErrorId.BUFFER, "4 bytes at address 0x0", () -> device.wrap(0, 4));
    assertRefused(ErrorId.BUFFER, "-1 bytes at", () -> device.wrap(host.address(), -1));
    try (DeviceMemory known = device.allocate(64)) {
      assertRefused(ErrorId.BUFFER, "65 bytes at", () -> device.wrap(known.address(), 65));
      assertEquals(known.address() + 60, device.wrap(known.address() + 60, 4).address());
    }
    assertEquals(0, device.wrap(0, 0).size());
    host.clear();
  }

  @Test
  void pinnedBuffers() {
    ByteBuffer direct = ByteBuffer.allocateDirect(64);
    assertRefused(ErrorId.BUFFER, "is not pinned", () -> device.wrap(direct));
    assertRefused(ErrorId.BUFFER, "heap", () -> device.wrap(ByteBuffer.allocate(4)));
    assertRefused(ErrorId.BUFFER, "read-only", () -> device.wrap(direct.asReadOnlyBuffer()));
    assertRefused(ErrorId.NULL, "buffer", () -> device.wrap((ByteBuffer) null));
    long pinned = device.gpu().context().get(() -> CudaLibrary.allocateHost(64, device));
    ByteBuffer buffer = bufferAt(pinned, 64).order(ByteOrder.nativeOrder()).position(16);
    DeviceMemory wrapped = device.wrap(buffer);
    assertEquals(pinned + 16, wrapped.address());
    assertEquals(48, wrapped.size());
    wrapped.close();
    CudaLibrary.freeHost(pinned, device);
  }

  private static ByteBuffer bufferAt(long address, int bytes) {
    return MemoryIO.getInstance().newDirectByteBuffer(address, bytes);
  }

  @Test
  void handlesThatAreNone() {
    for (long wrong : new long[] {3, 4095, -8, 0x100001}) {
      assertRefused(ErrorId.STREAM, "is the handle of no stream", () -> device.wrapStream(wrong));
      assertRefused(ErrorId.EVENT, "is the handle of no event", () -> device.wrapEvent(wrong));
    }
    assertRefused(ErrorId.EVENT, "0x0 is the handle of no event", () -> device.wrapEvent(0));
    for (long implicit = 0; implicit <= 2; implicit++) {
      assertEquals(implicit, device.wrapStream(implicit).handle());
    }
    assertEquals("", fake.fakeRecord().replaceAll("(?m)^cu(Ctx|ThreadExchange).*\\n", ""));
  }

  @Test
  void streamsOfAnotherDevice() {
    try (CudaStream own = (CudaStream) device.createStream();
        CudaStream other = (CudaStream) CudaDevices.probe().device(1).createStream()) {
      assertRefused(
          ErrorId.STREAM, "is of another device", () -> device.wrapStream(other.handle()));
      CudaStream wrapped = device.wrapStream(own.handle());
      assertEquals(own.handle(), wrapped.handle());
      assertSame(device, wrapped.device());
    }
  }

  /** Their launches would fail, after those of other ranks. */
  @Test
  void streamsOfAContextThatTheProgramHasCreated() {
    try (CudaStream own = (CudaStream) device.createStream();
        DeviceEvent event = device.createEvent()) {
      fake.fakeContext(own.handle(), /* isGreen= */ 0);
      assertThrows(CudaException.class, () -> own.record(event));
      long live = FakeCuda.live();
      InvalidArgumentException e =
          assertThrows(InvalidArgumentException.class, () -> device.wrapStream(own.handle()));
      assertEquals(ErrorId.STREAM, e.id());
      assertTrue(e.problem().contains("a context that the program has created"), e.problem());
      assertTrue(e.remedy().contains("primary context"), e.remedy());
      assertEquals(live, FakeCuda.live());
    }
  }

  @Test
  void streamsOfAGreenContext() {
    try (CudaStream own = (CudaStream) device.createStream();
        DeviceEvent event = device.createEvent()) {
      fake.fakeContext(own.handle(), /* isGreen= */ 1);
      CudaStream wrapped = device.wrapStream(own.handle());
      wrapped.record(event);
      assertEquals(own.handle(), wrapped.handle());
    }
  }

  @Test
  void aStreamThatIsBeingCapturedIsNotTried() {
    try (CudaStream own = (CudaStream) device.createStream()) {
      fake.fakeContext(own.handle(), /* isGreen= */ 1);
      fake.fakeReset();
      own.beginCapture();
      device.wrapStream(own.handle());
      own.endCapture().close();
      assertFalse(fake.fakeRecord().contains("cuEvent"), fake.fakeRecord());
    }
  }

  @Test
  void closingTheirWrappersLeavesStreamsAndEventsAlone() {
    long event = device.gpu().context().get(() -> CudaLibrary.createEvent(false, device));
    try (CudaStream own = (CudaStream) device.createStream()) {
      CudaStream stream = device.wrapStream(own.handle());
      DeviceEvent wrapped = device.wrapEvent(event);
      stream.record(wrapped);
      own.await(wrapped);
      fake.fakeReset();
      stream.close();
      wrapped.close();
      assertEquals("", fake.fakeRecord());
    }
    CudaLibrary.destroyEvent(event, device);
  }

  /** After its last operation has ended a user may destroy a stream before anything else. */
  @Test
  void aStreamIsNotTouchedAfterItsLastOperation() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
    try (DeviceMemory memory = device.allocate(4000);
        CudaStream next = (CudaStream) device.createStream()) {
      CudaKernelCommunicator communicator = ranks.communicators.get(0);
      KernelPlan plan = communicator.prepare(WORK);
      CudaStream own = (CudaStream) device.createStream();
      long handle = own.handle();
      CudaStream users = device.wrapStream(handle);
      communicator.launch(plan, memory, memory, users);
      users.synchronize();
      own.close();
      fake.fakeReset();
      communicator.launch(plan, memory, memory, next);
      next.synchronize();
      users.close();
      ranks.close();
      String hex = Long.toHexString(handle);
      List<String> touching =
          fake.fakeRecord().lines().filter(line -> line.matches(".*\\b" + hex + "\\b.*")).toList();
      assertEquals(List.of(), touching);
    }
  }
}
