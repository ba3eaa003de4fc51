package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.ConnectionMemory;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.operation.Protocol;

/** Communicators that use the same connections, against the recording driver. */
class SharedConnectionsTest extends AgainstFakeCuda {
  private GpuRanks ranks;
  private CudaDevice device;
  private CudaKernelCommunicator parent;
  private DeviceMemory buffer;
  private KernelPlan plan; // launched last
  private int seen; // of the driver's record
  private final List<CudaStream> streams = new ArrayList<>();
  private final List<CudaKernelCommunicator> children = new ArrayList<>();

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(4, Duration.ofSeconds(3));
    device = ranks.devices.get(3);
    parent = ranks.communicators.get(3);
    buffer = device.allocate(4000);
    for (int i = 0; i < 3; i++) {
      streams.add((CudaStream) device.createStream());
    }
    fake.fakeReset();
  }

  @AfterEach
  void closeRanks() {
    if (ranks != null) {
      children.forEach(CudaKernelCommunicator::close);
      streams.forEach(CudaStream::close);
      buffer.close();
      ranks.close();
    }
  }

  @Test
  void aFailureEndsAllAlthoughOneCannotBeEnded() {
    List<String> ended = new ArrayList<>();
    CudaException error = new CudaException("its end fails", "none", 2);
    ConnectionUsers users = new ConnectionUsers(device.gpu(), device.captures(), ranks.spec);
    users.add(member(ended, "first", error));
    users.add(member(ended, "second", null));
    InvalidUsageException cause = new InvalidUsageException("it has failed", "none");
    assertSame(error, assertThrows(CudaException.class, () -> users.fail(cause)));
    assertEquals(List.of("first", "second"), ended);
    assertSame(cause, users.failure());
    users.close();
  }

  private static ConnectionUsers.Member member(
      List<String> ended, String name, CudaException error) {
    return new ConnectionUsers.Member() {
      @Override
      public String complaint() {
        return null;
      }

      @Override
      public void explain(String complaint) {}

      @Override
      public void end() {
        ended.add(name);
        if (error != null) {
          throw error;
        }
      }
    };
  }

  /** Of the parent's rank 3, which this is, and others of its ranks. */
  private CudaKernelCommunicator child(CudaKernelCommunicator of, Integer... parentRanks) {
    List<Integer> all = List.of(parentRanks);
    return child(of, all.indexOf(3), all.size(), all);
  }

  private CudaKernelCommunicator child(
      CudaKernelCommunicator of, int rank, int n, List<Integer> parentRanks) {
    List<Connection> none = Collections.nCopies(n, null);
    KernelCommunicatorSpec spec =
        new KernelCommunicatorSpec(
            "child",
            rank,
            n,
            ranks.spec.layout(),
            none,
            none,
            List.of(IntStream.range(0, n).toArray()),
            List.of(),
            1,
            Progress.NONE,
            Duration.ofSeconds(3));
    CudaKernelCommunicator made =
        (CudaKernelCommunicator) of.share(spec, parentRanks, "/" + parentRanks);
    children.add(made);
    return made;
  }

  private void launch(CudaKernelCommunicator communicator, int stream) {
    plan = communicator.prepare(WORK);
    communicator.launch(plan, buffer, buffer, streams.get(stream));
  }

  private Offheap arguments(CudaKernelCommunicator communicator) {
    launch(communicator, 0);
    Offheap arguments = new Offheap(KernelLayout.COLLECTIVE_BYTES);
    fake.fakeAllArguments(arguments.address(), KernelLayout.COLLECTIVE_BYTES);
    Reference.reachabilityFence(plan);
    return arguments;
  }

  /** By which a kernel sees that the connections' last data were another's. */
  @Test
  void kernelsKnowWhichOfThoseThatShareTheyAreOf() {
    CudaKernelCommunicator some = child(parent, 1, 3);
    CudaKernelCommunicator others = child(parent, 2, 3);
    int first = user(parent);
    assertEquals(0, first);
    assertEquals(user(some), user(some));
    assertTrue(user(some) > 0 && user(some) <= 0xffff);
    assertNotEquals(user(some), user(others));
  }

  @Test
  void whatGotAnothersDataFailsByTheOrderOfCalls() {
    CudaKernelCommunicator child = child(parent, 1, 3);
    child.memory().control().putInt(KernelLayout.CONTROL_FAILED_KIND, 2);
    child.memory().control().putInt(KernelLayout.CONTROL_FAILED_PEER, 0);
    child.memory().control().putInt(KernelLayout.CONTROL_FAILED, 1);
    NcclException failure = child.failure();
    assertInstanceOf(OrderMismatchException.class, failure);
    assertTrue(
        failure.getMessage().contains("child rank 1 received data that rank 0"),
        failure.getMessage());
    assertTrue(failure.getMessage().contains("withSplitShare(false)"), failure.getMessage());
    assertInstanceOf(OrderMismatchException.class, parent.failure());
  }

  private int user(CudaKernelCommunicator communicator) {
    return arguments(communicator).bytes().getInt(KernelLayout.USER);
  }

  /** The record since the last look, as far as it is about our streams. */
  private String order() {
    List<String> calls = new ArrayList<>();
    String record = fake.fakeRecord();
    String fresh = record.substring(Math.min(seen, record.length()));
    seen = record.length();
    for (String line : fresh.split("\n")) {
      for (int i = 0; i < streams.size(); i++) {
        String stream = Long.toHexString(streams.get(i).handle());
        if (line.startsWith("cuLaunchKernelEx(") && line.contains("," + stream + ",")
            || line.startsWith("cuGraphLaunch(") && line.contains("," + stream + ")")) {
          calls.add("launch " + i);
        } else if (line.startsWith("cuEventRecord(") && line.contains("," + stream + ")")) {
          calls.add("record " + i);
        } else if (line.startsWith("cuStreamWaitEvent(" + stream + ",")) {
          calls.add("wait " + i);
        }
      }
    }
    return String.join(", ", calls);
  }

  private static long peer(Offheap arguments, int peer, int field) {
    return arguments.getLong(KernelLayout.PEERS + peer * KernelLayout.PEER_BYTES + field);
  }

  @Test
  void aChildsKernelsFindTheParentsConnectionsAndSteps() {
    Offheap ofParent = arguments(parent);
    Offheap ofChild = arguments(child(parent, 3, 1, 0));
    Offheap ofGrandchild = arguments(child(children.get(0), 1, 2, List.of(2, 0)));
    for (int field = 0; field < KernelLayout.PEER_BYTES; field += 8) {
      assertNotEquals(0, peer(ofParent, 0, field));
      assertEquals(peer(ofParent, 1, field), peer(ofChild, 1, field));
      assertEquals(peer(ofParent, 0, field), peer(ofChild, 2, field));
      assertEquals(peer(ofParent, 0, field), peer(ofGrandchild, 0, field));
      assertTrue(
          field == KernelLayout.PEER_STEPS || peer(ofChild, 0, field) == 0, "no way to itself");
    }
    assertEquals(0, ofChild.getInt(KernelLayout.RANK));
    assertEquals(3, ofChild.getInt(KernelLayout.N_RANKS));
    assertEquals(1, ofGrandchild.getInt(KernelLayout.RANK));
    assertNotEquals(
        ofParent.getLong(KernelLayout.RING_RANKS), ofChild.getLong(KernelLayout.RING_RANKS));
  }

  @Test
  void aSendFindsTheStepsToo() {
    CudaKernelCommunicator child = child(parent, 2, 3);
    Offheap arguments = new Offheap(KernelLayout.P2P_BYTES);
    for (CudaKernelCommunicator communicator : List.of(parent, child)) {
      int peer = communicator == parent ? 2 : 0;
      P2pWork work = new P2pWork(P2pWork.Kind.SEND, peer, buffer, 0, 800, Protocol.LL);
      plan = communicator.prepare(List.of(work));
      communicator.launch(plan, null, null, streams.get(0));
      fake.fakeAllArguments(arguments.address(), KernelLayout.P2P_BYTES);
      Reference.reachabilityFence(plan);
      assertEquals(
          parent.memory().steps(2),
          arguments.getLong(KernelLayout.INLINE_GROUP_TABLE + KernelLayout.GROUP_STEPS));
    }
  }

  @Test
  void manyChildrenTakeNoDeviceMemory() {
    long held = parent.memoryBytes();
    for (int i = 0; i < ConnectionMemory.CELLS; i++) {
      assertEquals(0, child(parent, 3, i % 3).memoryBytes());
    }
    child(parent, 0, 1, List.of(3));
    assertEquals(0, fake.fakeRecord().split("cuMemAlloc|cuMemCreate").length - 1);
    assertEquals(held, parent.memoryBytes());
    child(parent, 1, 3);
    long more = parent.memoryBytes() - held;
    assertEquals(ConnectionMemory.CELLS * ConnectionMemory.cellBytes(4), more);
    for (int time = 0; time < 2 * ConnectionMemory.CELLS; time++) {
      child(parent, 1, 3).close();
    }
    assertEquals(held + more, parent.memoryBytes(), "cells are used again");
  }

  @Test
  void launchesOfAllAreInOneOrder() {
    launch(parent, 0);
    launch(parent, 0);
    CudaKernelCommunicator child = child(parent, 3, 0);
    launch(child, 0);
    assertEquals("launch 0, launch 0, launch 0", order(), "one stream is an order");
    launch(child, 1);
    assertEquals("record 0, wait 1, launch 1", order());
    launch(parent, 0);
    assertEquals("record 1, wait 0, launch 0", order());
    launch(child(child, 0, 2, List.of(0, 1)), 2);
    assertEquals("record 0, wait 2, launch 2", order());
    launch(child, 2);
    assertEquals("launch 2", order());
  }

  @Test
  void whatIsCapturedIsInTheOrderOfItsCapture() {
    CudaKernelCommunicator child = child(parent, 3, 0);
    launch(parent, 0);
    streams.get(1).beginCapture();
    launch(child, 1);
    fork(1, 2);
    order();
    launch(parent, 2);
    assertEquals("record 1, wait 2, launch 2", order());
    launch(parent, 0);
    assertEquals("launch 0", order(), "the graph is not launched yet");
    fork(2, 1);
    try (CudaGraph graph = streams.get(1).endCapture()) {
      order();
      graph.launch(streams.get(1));
      assertEquals("record 0, wait 1, launch 1", order());
      graph.launch(streams.get(1));
      assertEquals("launch 1", order());
      launch(child, 2);
      assertEquals("record 1, wait 2, launch 2", order());
    }
  }

  /** Has one stream wait for another, as who captures both does. */
  private void fork(int from, int to) {
    try (CudaEvent event = (CudaEvent) device.createEvent()) {
      streams.get(from).record(event);
      streams.get(to).await(event);
    }
  }

  @Test
  void aStreamThatIsCapturedAfterALaunchIsStillFollowed() {
    CudaKernelCommunicator child = child(parent, 3, 0);
    launch(parent, 0);
    streams.get(0).beginCapture();
    launch(child, 1);
    assertEquals("launch 0, record 0, wait 1, launch 1", order());
    streams.get(0).endCapture().close();
    launch(child, 0);
    assertEquals("record 1, wait 0, launch 0", order());
  }

  @Test
  void aStreamThatIsCapturedAfterItsCommunicatorWasClosedIsStillFollowed() {
    CudaKernelCommunicator child = child(parent, 3, 0);
    launch(child, 0);
    child.close();
    streams.get(0).beginCapture();
    launch(parent, 1);
    assertEquals("launch 0, record 0, wait 1, launch 1", order());
    streams.get(0).endCapture().close();
  }

  @Test
  void closeAsksNothingOfAStreamThatTheUserHasDestroyed() {
    long handle = device.gpu().context().get(() -> CudaLibrary.createStream(device));
    streams.add(device.wrapStream(handle));
    CudaKernelCommunicator child = child(parent, 3, 0);
    launch(child, 3);
    streams.get(3).synchronize();
    CudaLibrary.destroyStream(handle, device);
    fake.fakeReset();
    seen = 0;
    child.close();
    String calls = fake.fakeRecord();
    assertFalse(
        Pattern.compile("\\b" + Long.toHexString(handle) + "\\b").matcher(calls).find(), calls);
    launch(parent, 0);
    assertEquals("wait 0, launch 0", order(), "the event was recorded with the launch");
  }

  @Test
  @Timeout(600)
  void streamsDoNotKeepClosedCommunicators() {
    CudaKernelCommunicator child = child(parent, 3, 0);
    launch(child, 0);
    launch(child, 1);
    launch(parent, 1);
    child.close();
    children.clear();
    WeakReference<CudaKernelCommunicator> closed = new WeakReference<>(child);
    child = null;
    while (closed.get() != null) { // until the timeout of the test
      System.gc();
    }
  }

  @Test
  void aStreamReportsTheFailureOfAClosedCommunicatorOnce() {
    CudaKernelCommunicator child = child(parent, 3, 0);
    launch(child, 0);
    launch(child, 1);
    child.abort(new RemoteException("rank 1 failed", "see rank 1"));
    child.close();
    for (CudaStream stream : streams.subList(0, 2)) {
      assertThrows(RemoteException.class, stream::synchronize);
      stream.synchronize();
    }
  }

  @Test
  void graphsCapturedBeforeAreInTheOrder() {
    streams.get(0).beginCapture();
    launch(parent, 0);
    try (CudaGraph graph = streams.get(0).endCapture()) {
      CudaKernelCommunicator child = child(parent, 3, 0);
      launch(child, 1);
      order();
      graph.launch(streams.get(0));
      assertEquals("record 1, wait 0, launch 0", order());
    }
  }

  @Test
  void twoCapturesAtOnceDoNotMeet() {
    CudaKernelCommunicator child = child(parent, 3, 0);
    streams.get(0).beginCapture();
    streams.get(1).beginCapture();
    launch(parent, 0);
    launch(child, 1);
    launch(parent, 0);
    assertEquals("launch 0, launch 1, launch 0", order());
    try (CudaGraph one = streams.get(0).endCapture();
        CudaGraph other = streams.get(1).endCapture()) {
      order();
      one.launch(streams.get(0));
      other.launch(streams.get(1));
      assertEquals("launch 0, record 0, wait 1, launch 1", order());
    }
  }

  /** A foreign capture on shared connections is refused: its launches cannot be ordered. */
  @Test
  void capturesOfOthersAreRefused() {
    CudaKernelCommunicator child = child(parent, 3, 0);
    capturedByOthers(
        () -> {
          for (CudaKernelCommunicator communicator : List.of(parent, child)) {
            NcclException error =
                assertThrows(InvalidUsageException.class, () -> launch(communicator, 0));
            assertTrue(error.getMessage().contains("withSplitShare(false)"), error.getMessage());
          }
          launch(child, 1);
        });
    launch(parent, 0);
    assertNull(parent.failure());
  }

  @Test
  void whatOthersCaptureOfTheirOwnStreamsIsSeenAtOnce() {
    streams.add(
        new CudaStream(
            device, new GpuStream(device.gpu(), streams.get(0).handle(), /* owned= */ false)));
    launch(parent, 3);
    launch(parent, 3);
    assertTrue(parent.sharingObstacle().isEmpty());
    capturedByOthers(() -> launch(parent, 3));
    assertTrue(parent.sharingObstacle().orElseThrow().contains("beginCapture"));
  }

  private void capturedByOthers(Runnable action) {
    CudaLibrary.beginCapture(streams.get(0).handle(), device);
    action.run();
    long graph = CudaLibrary.endCapture(streams.get(0).handle(), device);
    CudaLibrary.destroyGraph(0, graph, device);
  }

  @Test
  void whatOthersHaveCapturedIsNotShared() {
    assertTrue(parent.sharingObstacle().isEmpty());
    capturedByOthers(() -> launch(parent, 0));
    assertTrue(parent.sharingObstacle().orElseThrow().contains("beginCapture"));
    assertTrue(ranks.communicators.get(0).sharingObstacle().isEmpty());
    assertTrue(parent.isInGraphs());
    assertFalse(ranks.communicators.get(0).isInGraphs());
  }

  @Test
  void aFailureOfOneIsAFailureOfAll() {
    CudaKernelCommunicator child = child(parent, 1, 3);
    CudaKernelCommunicator sister = child(parent, 3, 0);
    launch(parent, 0);
    child.memory().control().putInt(KernelLayout.CONTROL_FAILED_PEER, 0);
    child.memory().control().putInt(KernelLayout.CONTROL_FAILED, 1);
    String message =
        assertThrows(NcclException.class, streams.get(0)::synchronize, "what followed it is spoilt")
            .getMessage();
    assertTrue(message.contains("rank 1 of child") && message.contains("of rank 0"), message);
    for (CudaKernelCommunicator each : List.of(parent, child, sister)) {
      assertEquals(1, each.memory().control().getInt(KernelLayout.CONTROL_ABORT));
      assertThrows(NcclException.class, () -> launch(each, 0));
    }
    assertEquals(1, child(parent, 3, 2).memory().control().getInt(KernelLayout.CONTROL_ABORT));
  }

  @Test
  void aLaunchSeesTheFailureOfAnother() {
    CudaKernelCommunicator child = child(parent, 1, 3);
    child.memory().control().putInt(KernelLayout.CONTROL_FAILED_PEER, 0);
    child.memory().control().putInt(KernelLayout.CONTROL_FAILED, 1);
    long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    while (parent.failure() == null && System.nanoTime() - end < 0) {
      Thread.onSpinWait();
    }
    assertThrows(NcclException.class, () -> launch(parent, 0));
  }

  @Test
  void anAbortReachesAllThatAreOpen() {
    CudaKernelCommunicator closed = child(parent, 1, 3);
    CudaKernelCommunicator open = child(parent, 1, 3);
    closed.close();
    open.abort(new RemoteException("rank 1 is gone", "restart it"));
    assertEquals("rank 1 is gone", parent.failure().problem());
    assertEquals(1, parent.memory().control().getInt(KernelLayout.CONTROL_ABORT));
  }

  @Test
  void whatCannotBeMadeLeavesNothing() {
    long before = FakeCuda.live();
    fake.fakeFail("cuEventCreate", 1);
    assertThrows(CudaException.class, () -> child(parent, 3, 0));
    fake.fakeReset();
    seen = 0;
    assertEquals(before, FakeCuda.live());
    launch(child(parent, 3, 0), 0);
    launch(parent, 1);
    assertEquals("launch 0, record 0, wait 1, launch 1", order());
  }
}
