package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.regex.Pattern;
import jcuda.driver.CUstream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.CudaResult;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.LaunchEvents;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Calls of this and other threads while a stream is captured, with a recording driver that
 * invalidates the capture as the real one does.
 */
@Timeout(600)
class CaptureTest {
  private static final int GLOBAL = 0; // CU_STREAM_CAPTURE_MODE_GLOBAL, what PyTorch captures with
  private static final int BLOCKING = 0; // CU_STREAM_DEFAULT
  private static final int SPOILT = 901; // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED

  private FakeLibrary fake;
  private GpuRanks ranks;
  private CudaKernelCommunicator communicator;
  private CudaStream stream;
  private DeviceMemory buffer;

  @BeforeEach
  void start() {
    fake = FakeCuda.get();
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(2, Duration.ofSeconds(3));
    communicator = ranks.communicators.get(0);
    stream = ranks.streams.get(0);
    buffer = ranks.devices.get(0).allocate(4000);
  }

  @AfterEach
  void end() {
    if (ranks != null) {
      buffer.close();
      ranks.close();
    }
  }

  private KernelPlan plan(DataType type) {
    return communicator.prepare(
        new CollectiveWork(
            Operation.ALL_REDUCE,
            Algorithm.RING,
            Protocol.SIMPLE,
            type,
            RedOp.SUM,
            0,
            1000,
            4,
            1 << 20));
  }

  private void launch() {
    communicator.launch(plan(DataType.FLOAT32), buffer, buffer, stream);
  }

  /** Runs something on another thread and waits for it. */
  private static void elsewhere(Runnable action) throws InterruptedException {
    Throwable[] thrown = new Throwable[1];
    Thread thread = new Thread(action, "other");
    thread.setUncaughtExceptionHandler((of, e) -> thrown[0] = e);
    thread.start();
    thread.join();
    if (thrown[0] != null) {
      throw new AssertionError(thrown[0]);
    }
  }

  @Test
  void theFakeSpoilsACaptureThatIsAskedAbout() {
    stream.beginCapture();
    assertEquals(900, DriverLibrary.CUDA.cuStreamQuery(stream.handle()));
    CudaException error = assertThrows(CudaException.class, stream::endCapture);
    assertEquals(SPOILT, error.result());
    assertTrue(error.getMessage().contains("only launch"), error.getMessage());
    assertFalse(stream.isCapturing());
  }

  @Test
  void whoLooksAtACommunicatorLeavesACaptureAlone() throws Exception {
    launch();
    stream.beginCapture();
    launch();
    elsewhere(
        () -> {
          assertFalse(communicator.isIdle(), "what is captured does not run");
          assertFalse(stream.isIdle());
          assertEquals(-1, communicator.waitsFor());
          assertEquals(null, communicator.failure());
        });
    launch();
    stream.endCapture().close();
    assertTrue(communicator.isIdle());
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  /** As many captures as fit while another thread looks all the time. */
  @Test
  void aThreadThatLooksAllTheTimeSpoilsNoCapture() throws Exception {
    launch();
    Throwable[] thrown = new Throwable[1];
    boolean[] enough = new boolean[1];
    long[] looks = new long[1];
    Thread looking =
        new Thread(
            () -> {
              while (!over(enough)) {
                communicator.isIdle();
                synchronized (looks) {
                  looks[0]++;
                }
              }
            });
    looking.setUncaughtExceptionHandler((of, e) -> thrown[0] = e);
    looking.start();
    try {
      for (int capture = 0; capture < 50; capture++) {
        stream.beginCapture();
        launch();
        long before = count(looks);
        while (count(looks) < before + 2 && looking.isAlive()) {
          Thread.onSpinWait();
        }
        stream.endCapture().close();
        fake.fakeReset(); // the record is not endless
      }
    } finally {
      synchronized (enough) {
        enough[0] = true;
      }
      looking.join();
    }
    assertEquals(null, thrown[0]);
  }

  private static boolean over(boolean[] flag) {
    synchronized (flag) {
      return flag[0];
    }
  }

  private static long count(long[] counter) {
    synchronized (counter) {
      return counter[0];
    }
  }

  /** Allocations, modules and events of this library have nothing to do with a user's capture. */
  @Test
  void whatIsMadeDuringCapturesOfAnyThreadSpoilsNone() throws Exception {
    try (CudaStream other = (CudaStream) ranks.devices.get(1).createStream()) {
      long users = other.handle();
      assertEquals(0, DriverLibrary.CUDA.cuStreamBeginCapture_v2(users, GLOBAL));
      elsewhere(
          () -> {
            stream.beginCapture();
            communicator.launch(plan(DataType.INT8), buffer, buffer, stream); // loads its kernels
            ranks.devices.get(0).allocate(100).close();
            ranks.devices.get(0).createEvent().close();
            communicator.isIdle();
            stream.endCapture().close();
            communicator.isIdle();
          });
      CudaLibrary.destroyGraph(0, CudaLibrary.endCapture(users, other.device()), other.device());
    }
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  /** The legacy stream may not be used while a stream that it waits for is captured. */
  @Test
  void memoryIsMadeAndCopiedWhileABlockingStreamIsCaptured() {
    CudaDevice device = ranks.devices.get(0);
    Offheap made = new Offheap(8);
    assertEquals(0, DriverLibrary.CUDA.cuStreamCreate(made.address(), BLOCKING));
    long users = made.getLong(0);
    assertEquals(0, DriverLibrary.CUDA.cuStreamBeginCapture_v2(users, GLOBAL));
    try (DeviceMemory memory = device.allocate(100);
        DeviceMemory window = device.memAlloc(100)) {
      memory.write(0, ByteBuffer.allocate(8).putLong(0, 5));
      ByteBuffer read = ByteBuffer.allocate(12);
      memory.read(0, read.position(4));
      assertEquals(5, read.getLong(4));
      window.fill((byte) 3);
    }
    CudaLibrary.destroyGraph(0, CudaLibrary.endCapture(users, device), device);
    CudaLibrary.destroyStream(users, device);
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void whoCapturesMayAskAboutEventsOfOtherStreams() {
    CudaDevice device = ranks.devices.get(0);
    try (DeviceStream other = device.createStream();
        DeviceEvent begin = device.createEvent();
        DeviceEvent end = device.createEvent()) {
      other.record(begin);
      other.record(end);
      stream.beginCapture();
      launch();
      assertTrue(end.isComplete());
      assertEquals(1500, end.microsecondsSince(begin));
      stream.endCapture().close();
    }
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void anEventIsRecordedOnceForEachAnswer() {
    launch();
    fake.fakeReset();
    assertTrue(communicator.isIdle());
    launch();
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    assertFalse(communicator.isIdle());
    assertFalse(communicator.isIdle());
    assertEquals(2, records(), "one is on its way");
    launch();
    assertFalse(communicator.isIdle());
    assertEquals(3, records(), "the other came before the last launch");
    fake.fakeFail("", 0);
    assertTrue(communicator.isIdle());
    assertTrue(communicator.isIdle());
    assertEquals(4, records(), "who asks again wants to know about now");
  }

  @Test
  void aGraphThatWasLaunchedSinceIsWaitedFor() {
    stream.beginCapture();
    launch();
    CudaGraph graph = stream.endCapture();
    fake.fakeReset();
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    assertFalse(communicator.isIdle());
    graph.launch(stream);
    assertFalse(communicator.isIdle());
    assertEquals(2, records());
    fake.fakeFail("", 0);
    assertTrue(communicator.isIdle());
    assertNotNull(graph);
    graph.close();
  }

  /** Kernels count nothing, and no event is recorded by a launch: only by who looks. */
  @Test
  void howManyLaunchesHaveEndedIsKnownBetweenBounds() {
    launch();
    launch();
    assertEquals(0, records());
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    assertBounds(0, 2);
    assertBounds(0, 2);
    assertEquals(1, records(), "nothing was launched between the looks");
    launch();
    assertBounds(0, 2);
    fake.fakeFail("", 0);
    assertBounds(3, 4);
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    for (int look = 0; look < 2 * LaunchEvents.MARKS; look++) {
      launch();
      assertBounds(3, 4);
    }
    fake.fakeFail("", 0);
    assertBounds(3 + 2 * LaunchEvents.MARKS, 4 + 2 * LaunchEvents.MARKS);
  }

  @Test
  void whatGaveUpHasNotEnded() {
    launch();
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    assertBounds(0, 1);
    fake.fakeFail("", 0);
    communicator.abort(new RemoteException("rank 1 is gone", "restart it"));
    assertBounds(0, 1);
  }

  @Test
  void nothingIsRecordedForProgressInACapture() {
    stream.beginCapture();
    launch();
    assertBounds(0, 1);
    assertEquals(0, records());
    stream.endCapture().close();
    assertBounds(1, 2);
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  private void assertBounds(long ended, long firstNotEnded) {
    assertEquals(ended, communicator.ended());
    assertEquals(firstNotEnded, communicator.firstNotEnded());
  }

  /** The handle of a thread's default stream means another stream on the thread that looks. */
  @Test
  void aStreamOfTheDriversOwnIsRecordedByWhoLaunches() throws Exception {
    CUstream perThread = new CUstream() {};
    CudaStream implicit = ranks.devices.get(0).wrap(perThread); // the legacy default stream
    communicator.launch(plan(DataType.FLOAT32), buffer, buffer, implicit);
    assertEquals(2, records(), "for the order and as a mark");
    elsewhere(() -> assertTrue(communicator.isIdle()));
    assertEquals(2, records());
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    elsewhere(() -> assertFalse(communicator.isIdle()));
    assertEquals(2, records());
    fake.fakeFail("", 0);
    implicit.close();
  }

  /** A user's stream may be destroyed once its work has ended; its handle is another's then. */
  @Test
  void aDestroyedStreamOfTheUsersIsNamedByNoCall() throws Exception {
    CudaDevice device = ranks.devices.get(0);
    long handle = device.gpu().context().get(() -> CudaLibrary.createStream(device));
    CudaStream users =
        new CudaStream(device, new GpuStream(device.gpu(), handle, /* owned= */ false));
    KernelPlan plan = plan(DataType.FLOAT32);
    communicator.launch(plan, buffer, buffer, users);
    users.synchronize();
    device.gpu().context().run(() -> CudaLibrary.destroyStream(handle, device));
    fake.fakeReset();
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    elsewhere(() -> assertBounds(0, 1));
    assertFalse(communicator.isIdle());
    fake.fakeFail("", 0);
    elsewhere(() -> assertBounds(1, 2));
    assertTrue(communicator.isIdle());
    communicator.launch(plan, buffer, buffer, stream);
    assertTrue(communicator.isIdle());
    assertBounds(2, 3);
    communicator.close();
    String calls = fake.fakeRecord();
    assertFalse(
        Pattern.compile("\\b" + Long.toHexString(handle) + "\\b").matcher(calls).find(), calls);
  }

  /** Else nobody would see progress before the last one has ended. */
  @Test
  void launchesIntoAStreamOfTheUsersAreMarkedNowAndThen() {
    CudaDevice device = ranks.devices.get(0);
    CudaStream users =
        new CudaStream(
            device,
            new GpuStream(
                device.gpu(),
                device.gpu().context().get(() -> CudaLibrary.createStream(device)),
                false));
    LaunchEvents marks = new LaunchEvents(device.gpu(), () -> false);
    long end = LaunchEvents.LAUNCHES_MARK_NANOS;
    device.gpu().context().run(() -> marks.launched(1, users.open(), 0));
    device.gpu().context().run(() -> marks.launched(2, users.open(), end - 1));
    assertEquals(1, records(), "the second follows at once");
    assertEquals(1, marks.ended(1, stream.open(), communicator.order()));
    device.gpu().context().run(() -> marks.launched(3, users.open(), end));
    assertEquals(2, records());
    assertEquals(3, marks.ended(3, stream.open(), communicator.order()));
    marks.close();
    users.synchronize();
    device.gpu().context().run(() -> CudaLibrary.destroyStream(users.handle(), device));
  }

  /**
   * A copy from the host is there when the call returns, for streams that wait for no other too.
   */
  @Test
  void whatIsWrittenIsThereForAnyStream() {
    try (DeviceMemory copy = ranks.devices.get(0).allocate(8)) {
      for (int value = 1; value <= 3; value++) {
        ByteBuffer written = ByteBuffer.allocateDirect(8).putLong(0, value);
        buffer.write(0, written);
        stream.copy(buffer.slice(0, 8), copy);
        stream.synchronize();
        ByteBuffer read = ByteBuffer.allocateDirect(8);
        copy.read(0, read);
        assertEquals(value, read.getLong(0));
      }
    }
  }

  private long records() {
    return fake.fakeRecord().lines().filter(line -> line.startsWith("cuEventRecord(")).count();
  }
}
