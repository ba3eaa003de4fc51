package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.CopyReason;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.MappableSegment;
import org.nccl4j.device.host.memory.ProcessCopyProbe;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.support.ThreadLog;

/** Steps that a receiver reads from the sender's buffer, one by one. */
@Timeout(600)
class ExposuresTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(512, 384, 256);
  private static final int BYTES = 256;
  private static final int LEAST = 100;
  private static final Call CALL = new Call(CallSignature.ofMessage(BYTES), () -> "a step");
  private static final SingleCopy IN_PROCESS = new SingleCopy(LEAST, SingleCopy.NEVER, Level.DEBUG);
  private static final SingleCopy BETWEEN_PROCESSES =
      new SingleCopy(SingleCopy.NEVER, LEAST, Level.DEBUG);
  private static final SingleCopy MAPPED =
      new SingleCopy(SingleCopy.NEVER, SingleCopy.NEVER, LEAST, Level.DEBUG);

  private final HostDevice device = HostDevice.instance();
  private final DeviceMemory data = device.allocate(LAYOUT.dataBytes());
  private final DeviceMemory credit = device.allocate(ConnectionLayout.CREDIT_BYTES);
  private final Connection connection = new Connection(data, credit);
  private final HostMemory source = HostMemory.of(device.memAlloc(2 * BYTES));
  private final HostMemory target = HostMemory.of(device.allocate(BYTES));
  private final HostMemory scratch = HostMemory.of(device.allocate(3 * BYTES));
  private final SpinWait waiter = waiter(Duration.ofSeconds(30));
  private final Exposures exposures = new Exposures(2);
  private SendEnd sender;
  private RecvEnd receiver;

  static Stream<SingleCopy> ways() {
    return Stream.of(IN_PROCESS, BETWEEN_PROCESSES, MAPPED);
  }

  private static SpinWait waiter(Duration deadline) {
    return new SpinWait("exposures", 0, deadline, true, Progress.NONE);
  }

  @AfterEach
  void close() {
    Stream.of(data, credit, source, target, scratch).forEach(DeviceMemory::close);
  }

  private void connect(SingleCopy sizes) {
    sender = sender(sizes);
    receiver = receiver(sizes);
  }

  private SendEnd sender(SingleCopy sizes) {
    SendEnd end = new SendEnd(1, connection, LAYOUT);
    end.expose(sizes, exposures);
    return end;
  }

  private RecvEnd receiver(SingleCopy sizes) {
    RecvEnd end = new RecvEnd(0, connection, LAYOUT);
    end.readExposures(sizes, "rank 1 from rank 0");
    return end;
  }

  private void send(int bytes) {
    Primitives to =
        new SlotPrimitives(
            0,
            waiter,
            CALL,
            new RecvEnd[0],
            new SendEnd[] {sender},
            null,
            1,
            scratch,
            new BufferCopies(),
            false);
    to.mayExpose(true);
    to.send(source, 3, bytes);
  }

  private void receive(SpinWait whose, int bytes) {
    new SlotPrimitives(
            1,
            whose,
            CALL,
            new RecvEnd[] {receiver},
            new SendEnd[0],
            null,
            1,
            scratch,
            new BufferCopies(),
            false)
        .recv(target, 0, bytes);
  }

  private byte first() {
    return target.window(0).get(target.index(0));
  }

  /** The byte that arrives if the sender's buffer changes from 1 to 2 after the send. */
  private int arrivesAfterChange(int bytes) {
    source.fill((byte) 1);
    send(bytes);
    source.fill((byte) 2);
    receive(waiter, bytes);
    return first();
  }

  @ParameterizedTest
  @MethodSource("ways")
  void largeStepsAreReadFromTheBufferAndSmallOnesFromSlots(SingleCopy way) {
    connect(way);
    for (int turn = 0; turn < 20; turn++) {
      assertEquals(2, arrivesAfterChange(LEAST + turn), "exposed, turn " + turn);
      assertEquals(1, arrivesAfterChange(LEAST - 1), "in a slot, turn " + turn);
    }
    assertTrue(exposures.exist());
    exposures.settle(waiter);
    assertFalse(exposures.exist());
  }

  @Test
  void theReceiversMeasurementDecidesBetweenProcesses() {
    connect(new SingleCopy(SingleCopy.NEVER, SingleCopy.MEASURED, Level.DEBUG));
    int least = ProcessCopyProbe.times(CopyTimes.Store.NONE).leastBytes();
    long answer = AtomicWords.loadAcquire(HostMemory.of(credit), Exposure.ANSWER);
    long expected =
        least == SingleCopy.NEVER
            ? Exposure.BY_SLOTS
            : Exposure.answer(Exposure.BETWEEN_PROCESSES, least, /* maps= */ false);
    assertEquals(expected, answer, ProcessCopyProbe.times(CopyTimes.Store.NONE).toString());
    assertEquals(1, arrivesAfterChange(BYTES), "smaller than any size that is measured");
  }

  @Test
  void theSenderExposesNoStepBelowTheReceiversLeast() {
    sender = sender(new SingleCopy(SingleCopy.NEVER, SingleCopy.MEASURED, Level.DEBUG));
    receiver = receiver(BETWEEN_PROCESSES);
    assertEquals(2, arrivesAfterChange(LEAST));
    assertEquals(1, arrivesAfterChange(LEAST - 1));
  }

  @Test
  void anOfferThatComesLateIsAnsweredAtTheNextStep() {
    receiver = receiver(IN_PROCESS);
    sender = sender(IN_PROCESS);
    assertEquals(1, arrivesAfterChange(BYTES));
    assertEquals(2, arrivesAfterChange(BYTES));
  }

  @Test
  void aSenderOfAnotherProcessThatCannotBeReadGoesOnThroughSlots() {
    sender = sender(BETWEEN_PROCESSES);
    AtomicWords.storeRelease(HostMemory.of(data), Exposure.PATTERN, ExposedMemory.pattern(0) + 1);
    receiver = receiver(BETWEEN_PROCESSES);
    assertEquals(1, arrivesAfterChange(BYTES), "another pattern");
    AtomicWords.storeRelease(HostMemory.of(credit), Exposure.ANSWER, 0);
    sender = sender(BETWEEN_PROCESSES);
    sender.goOnAt(1);
    AtomicWords.storeRelease(HostMemory.of(data), Exposure.PROCESS, Integer.MAX_VALUE);
    receiver = receiver(BETWEEN_PROCESSES);
    receiver.goOnAt(1);
    assertEquals(1, arrivesAfterChange(BYTES), "no such process");
  }

  /** Before, the reason was told at DEBUG alone. */
  @Test
  void theReasonWhySegmentsCannotBeMappedIsInTheLineOfTheConnection() {
    List<String> lines = new ArrayList<>();
    Handler handler = collect(lines);
    Logger logger = Logger.getLogger("org.nccl4j.P2P");
    logger.addHandler(handler);
    try {
      SingleCopy told = new SingleCopy(SingleCopy.NEVER, SingleCopy.NEVER, LEAST, Level.INFO);
      sender = sender(told);
      AtomicWords.storeRelease(HostMemory.of(data), Exposure.DESCRIPTOR, 0);
      receiver = receiver(told);
    } finally {
      logger.removeHandler(handler);
    }
    assertEquals(1, lines.size(), lines.toString());
    assertTrue(
        lines
            .get(0)
            .startsWith(
                "rank 1 from rank 0: data go through slots; memory that the device allocated is not"
                    + " mapped: process "),
        lines.get(0));
  }

  /** The connection's line says that memory is mapped. */
  @Test
  void theReasonWhyABufferIsCopiedTwiceIsToldOnce() {
    List<String> lines = new ArrayList<>();
    Handler handler = collect(lines);
    Logger logger = Logger.getLogger("org.nccl4j.P2P");
    CopyReason reason = new CopyReason("a reason (a remedy)");
    HostMemory one = new HostMemory(device, target.address(), BYTES, () -> {}, reason);
    HostMemory other = new HostMemory(device, target.address(), BYTES, () -> {}, reason);
    connect(new SingleCopy(SingleCopy.NEVER, SingleCopy.NEVER, LEAST, Level.INFO));
    logger.addHandler(handler);
    try {
      assertFalse(sender.choose(one, LEAST - 1, /* reduced= */ false));
      assertEquals(List.of(), lines, "too small for any");
      assertTrue(sender.choose(source, LEAST, /* reduced= */ false));
      assertEquals(List.of(), lines, "mapped");
      assertFalse(sender.choose(one, LEAST, /* reduced= */ false));
      assertFalse(sender.choose(other.slice(8, LEAST), LEAST, /* reduced= */ true));
    } finally {
      logger.removeHandler(handler);
    }
    assertEquals(
        List.of("data of some buffers are copied twice to other processes: a reason (a remedy)"),
        lines);
  }

  /** Collects what is for users, not for debugging. */
  private static Handler collect(List<String> lines) {
    Handler handler = new ThreadLog(lines);
    handler.setLevel(java.util.logging.Level.INFO);
    return handler;
  }

  @Test
  void aSenderWhoseSegmentsCannotBeMappedGoesOnThroughSlots() {
    sender = sender(MAPPED);
    AtomicWords.storeRelease(HostMemory.of(data), Exposure.PATTERN, ExposedMemory.pattern(0) + 1);
    receiver = receiver(MAPPED);
    assertEquals(1, arrivesAfterChange(BYTES), "another pattern");
    AtomicWords.storeRelease(HostMemory.of(credit), Exposure.ANSWER, 0);
    sender = sender(MAPPED);
    sender.goOnAt(1);
    AtomicWords.storeRelease(HostMemory.of(data), Exposure.DESCRIPTOR, Integer.MAX_VALUE);
    receiver = receiver(MAPPED);
    receiver.goOnAt(1);
    assertEquals(1, arrivesAfterChange(BYTES), "no such descriptor");
  }

  @Test
  void memoryThatIsInNoSegmentGoesThroughSlots() {
    connect(MAPPED);
    HostMemory own = HostMemory.of(device.allocate(2 * BYTES));
    own.fill((byte) 1);
    Primitives to =
        new SlotPrimitives(
            0,
            waiter,
            CALL,
            new RecvEnd[0],
            new SendEnd[] {sender},
            null,
            1,
            scratch,
            new BufferCopies(),
            false);
    to.mayExpose(true);
    to.send(own, 3, BYTES);
    assertFalse(exposures.exist());
    receive(waiter, BYTES);
    assertEquals(1, first());
    own.close();
  }

  /** The rank that frees a buffer does not wait for others to unmap it. */
  @Test
  void aSegmentThatIsFreedGivesItsPagesBackWhoeverMapsIt() {
    connect(MAPPED);
    assertEquals(2, arrivesAfterChange(BYTES));
    exposures.settle(waiter);
    PeerSegments segments = new PeerSegments(ProcessHandle.current().pid(), device);
    MappableSegment segment = source.segment();
    HostMemory mapping = segments.map(segment.number(), segment.descriptor(), segment.bytes());
    assertEquals(2, mapping.window(0).get(mapping.index(3)));
    source.close();
    while (mapping.window(0).get(mapping.index(3)) != 0) { // until the timeout of the test
      Thread.onSpinWait();
    }
    segments.close();
    receiver.close();
  }

  @Test
  void theSegmentThatWasMappedFirstGivesWay() {
    PeerSegments segments = new PeerSegments(ProcessHandle.current().pid(), device);
    MappableSegment segment = source.segment();
    for (long number = 1; number <= PeerSegments.MOST + 1; number++) {
      segments.map(number, segment.descriptor(), segment.bytes());
      assertTrue(segments.find(number) != null);
    }
    assertTrue(segments.find(1) == null);
    assertTrue(segments.find(2) != null);
    // It is the oldest now, and a step may expose it together with the next.
    segments.map(PeerSegments.MOST + 2, segment.descriptor(), segment.bytes());
    assertTrue(segments.find(2) != null);
    assertTrue(segments.find(3) == null);
    segments.close();
    assertTrue(segments.find(2) == null);
    assertThrows(
        SystemErrorException.class,
        () -> segments.map(1, segment.descriptor(), 2 * segment.bytes()),
        "another size");
  }

  @Test
  void aReceiverThatMayNotReadAnswersNothingElseThanSlots() {
    sender = sender(IN_PROCESS);
    receiver = new RecvEnd(0, connection, LAYOUT);
    assertEquals(1, arrivesAfterChange(BYTES));
  }

  @ParameterizedTest
  @MethodSource("ways")
  void aKernelEndsOnlyWhenItsExposuresWereRead(SingleCopy way) {
    connect(way);
    send(BYTES);
    assertThrows(
        TimeoutException.class,
        () -> exposures.settle(waiter(Duration.ofMillis(1))),
        "not read yet");
    receive(waiter, BYTES);
    exposures.settle(waiter);
  }

  @ParameterizedTest
  @MethodSource("ways")
  void revokedExposuresAreNotRead(SingleCopy way) {
    connect(way);
    source.fill((byte) 7);
    send(BYTES);
    exposures.revoke(Long.MAX_VALUE, Progress.NONE);
    source.close();
    SpinWait theirs = waiter(Duration.ofSeconds(30));
    NcclException cause = new SystemErrorException(ErrorId.SHARED_MEMORY, "rank 0 failed", "look");
    theirs.fail(cause);
    NcclException thrown = assertThrows(NcclException.class, () -> receive(theirs, BYTES));
    assertEquals(cause.getMessage(), thrown.getMessage());
    assertEquals(0, first());
  }

  @Test
  void aFailedSenderWaitsForAReceiverThatIsReading() throws Exception {
    connect(IN_PROCESS);
    send(BYTES);
    receiver.awaitData(waiter, CALL);
    receiver.locate(waiter);
    Thread failing = new Thread(() -> exposures.revoke(Long.MAX_VALUE, Progress.NONE));
    failing.start();
    while (AtomicWords.loadAcquire(HostMemory.of(data), Exposure.REVOKED) == 0) {
      Thread.onSpinWait();
    }
    assertTrue(failing.isAlive());
    receiver.release();
    failing.join();
    assertFalse(exposures.exist());
  }

  /** Before, the sender waited 10 s for it. */
  @Test
  void aReceiverThatIsKilledInTheMiddleOfAReadIsNotWaitedFor() throws Exception {
    connect(MAPPED);
    send(BYTES);
    receiver.awaitData(waiter, CALL);
    receiver.locate(waiter);
    Process killed = new ProcessBuilder("sleep", "1000").start();
    AtomicWords.storeRelease(HostMemory.of(credit), Exposure.READER, killed.pid());
    Thread failing = new Thread(() -> exposures.revoke(Long.MAX_VALUE, Progress.NONE));
    failing.start();
    while (AtomicWords.loadAcquire(HostMemory.of(data), Exposure.REVOKED) == 0) {
      Thread.onSpinWait();
    }
    try {
      assertTrue(failing.isAlive(), "a receiver that lives may read");
      killed.destroyForcibly();
      failing.join(30_000);
      assertFalse(failing.isAlive());
      assertFalse(exposures.exist());
    } finally {
      killed.destroyForcibly();
      AtomicWords.storeRelease(HostMemory.of(credit), Exposure.READING, 0);
      failing.join();
    }
  }

  @Test
  void theReceiverTellsItsProcess() {
    connect(MAPPED);
    assertEquals(
        ThisProcess.pid(), AtomicWords.loadAcquire(HostMemory.of(credit), Exposure.READER));
  }

  @Test
  void aFailedReceiverReadsNoMore() {
    connect(IN_PROCESS);
    send(BYTES);
    receiver.awaitData(waiter, CALL);
    receiver.locate(waiter);
    receiver.abandon();
    exposures.revoke(Long.MAX_VALUE, Progress.NONE);
    assertFalse(exposures.exist());
  }

  @Test
  void memoryOfAnExposureWhoseReadingDoesNotEndIsKept() {
    connect(IN_PROCESS);
    send(BYTES);
    receiver.awaitData(waiter, CALL);
    receiver.locate(waiter);
    exposures.revoke(0, Progress.NONE);
    source.close();
    assertFalse(Leases.of(source).isOver());
    receiver.copy(0, target, 0, BYTES, /* leaves= */ false, waiter);
  }
}
