package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.CudaResult;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.stream.GpuStream;

/**
 * The order of one communicator's launches in streams of the user's, and in graphs that the user
 * captures and launches without this library, against the recording driver.
 */
class OtherGraphsTest extends AgainstFakeCuda {
  private static final int RELAXED = 2; // CU_STREAM_CAPTURE_MODE_RELAXED

  private GpuRanks ranks;
  private CudaKernelCommunicator communicator;
  private CudaDevice device;
  private DeviceMemory buffer;

  /** The library's own, and as the user has wrapped them. */
  private final List<CudaStream> owned = new ArrayList<>();

  private final List<CudaStream> wrapped = new ArrayList<>();
  private String behind; // begins the lines that record the order's event
  private int seen; // of the driver's record

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(2, Duration.ofSeconds(3));
    communicator = ranks.communicators.get(0);
    device = ranks.devices.get(0);
    buffer = device.allocate(4000);
    for (int i = 0; i < 3; i++) {
      owned.add((CudaStream) device.createStream());
      wrapped.add(wrap(i));
    }
    fake.fakeReset();
  }

  @AfterEach
  void closeRanks() {
    if (ranks != null) {
      wrapped.forEach(CudaStream::close);
      owned.forEach(CudaStream::close);
      buffer.close();
      ranks.close();
    }
  }

  private CudaStream wrap(int stream) {
    return new CudaStream(
        device, new GpuStream(device.gpu(), owned.get(stream).handle(), /* owned= */ false));
  }

  private void launch(CudaStream stream) {
    communicator.launch(communicator.prepare(WORK), buffer, buffer, stream);
  }

  /** The streams' operations since the last look; graph: when the graph is launched. */
  private String order() {
    List<String> calls = new ArrayList<>();
    String record = fake.fakeRecord();
    for (String line : record.substring(seen).split("\n")) {
      for (int i = 0; i < owned.size(); i++) {
        String stream = Long.toHexString(owned.get(i).handle());
        if (line.startsWith("cuLaunchKernelEx(") && line.contains("," + stream + ",")) {
          calls.add("launch " + i);
        } else if (line.startsWith("cuEventRecordWithFlags(") && line.contains("," + stream)) {
          calls.add("graph record " + i);
        } else if (line.startsWith("cuEventRecord(") && line.contains("," + stream + ")")) {
          // The first record is the order's; marks of launches have events of their own.
          String event = line.substring(0, line.indexOf(','));
          behind = behind == null ? event : behind;
          if (event.equals(behind)) {
            calls.add("record " + i);
          }
        } else if (line.startsWith("cuStreamWaitEvent(" + stream + ",")) {
          calls.add((line.endsWith(",1)") ? "graph wait " : "wait ") + i);
        }
      }
    }
    seen = record.length();
    return String.join(", ", calls);
  }

  private void begin(int stream) {
    assertEquals(
        0, DriverLibrary.CUDA.cuStreamBeginCapture_v2(owned.get(stream).handle(), RELAXED));
  }

  private void end(int stream) {
    long graph = CudaLibrary.endCapture(owned.get(stream).handle(), device);
    CudaLibrary.destroyGraph(0, graph, device);
  }

  @Test
  void aUsersStreamIsNotTouchedAfterTheLaunch() {
    launch(wrapped.get(0));
    launch(wrapped.get(0));
    assertEquals("launch 0, record 0, launch 0, record 0", order());
    launch(owned.get(1));
    assertEquals("wait 1, launch 1", order());
    launch(owned.get(1));
    assertEquals("launch 1", order(), "a stream of the library's is an order of its own");
    launch(wrapped.get(2));
    assertEquals("record 1, wait 2, launch 2, record 2", order());
  }

  @Test
  void aStreamThatIsWrappedAnewIsTheSame() {
    launch(wrap(0));
    launch(wrap(0));
    launch(owned.get(0));
    assertEquals("launch 0, record 0, launch 0, record 0, launch 0", order());
  }

  /** The work of the stream that had the handle before may be under way. */
  @Test
  void aStreamThatGetsTheHandleOfADestroyedOneIsAnother() {
    launch(wrapped.get(0));
    fake.fakeRenew(wrapped.get(0).handle());
    assertTrue(wrapped.get(0).isHandleReused());
    CudaStream next = wrap(0);
    assertFalse(next.isHandleReused());
    launch(next);
    launch(next);
    assertEquals("launch 0, record 0, wait 0, launch 0, record 0, launch 0, record 0", order());
  }

  @Test
  void aGraphWaitsForTheLastLaunchAndTheNextForTheGraph() {
    launch(owned.get(0));
    begin(1);
    launch(wrapped.get(1));
    launch(wrapped.get(1));
    assertEquals(
        "launch 0, record 0, graph wait 1, launch 1, graph record 1, launch 1, graph record 1",
        order());
    launch(owned.get(0));
    assertEquals("wait 0, launch 0, record 0", order());
    end(1);
    launch(owned.get(0));
    launch(wrapped.get(2));
    assertEquals("wait 0, launch 0, record 0, wait 2, launch 2, record 2", order());
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void whatWasInTheCapturedStreamBeforeIsWaitedForToo() {
    launch(wrapped.get(1));
    begin(1);
    launch(wrapped.get(1));
    end(1);
    assertEquals("launch 1, record 1, graph wait 1, launch 1, graph record 1", order());
  }

  /** As who captures forks and joins: the stream has had launches before. */
  @Test
  void aStreamOfTheLibrarysThatJoinsACaptureIsSeen() {
    launch(wrapped.get(2));
    launch(owned.get(1));
    order();
    begin(0);
    try (DeviceEvent fork = device.createEvent();
        DeviceEvent join = device.createEvent()) {
      wrapped.get(0).record(fork);
      owned.get(1).await(fork);
      assertEquals("record 1, wait 1", order());
      launch(owned.get(1));
      assertEquals("graph wait 1, launch 1, graph record 1", order());
      assertTrue(communicator.isInGraphs());
      owned.get(1).record(join);
      wrapped.get(0).await(join);
    }
    end(0);
    order();
    launch(owned.get(2));
    assertEquals("wait 2, launch 2, record 2", order());
    assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
  }

  @Test
  void capturesAtOnceEachWaitOnce() {
    begin(0);
    begin(1);
    for (int time = 0; time < 2; time++) {
      launch(wrapped.get(0));
      launch(wrapped.get(1));
    }
    end(0);
    end(1);
    assertEquals(
        "graph wait 0, launch 0, graph record 0, graph wait 1, launch 1, graph record 1,"
            + " launch 0, graph record 0, launch 1, graph record 1",
        order());
  }

  @Test
  void aGraphOfThisLibraryKnowsItsLaunches() {
    launch(owned.get(0));
    owned.get(0).beginCapture();
    launch(owned.get(0));
    launch(owned.get(0));
    CudaGraph graph = owned.get(0).endCapture();
    launch(owned.get(0));
    graph.launch(owned.get(0));
    graph.launch(owned.get(1));
    assertEquals(List.of("1-3, 2 times"), captured());
    graph.launch(owned.get(1));
    graph.close();
    assertEquals(List.of("1-3, 3 times, over"), captured());
    assertEquals(List.of(), captured());
  }

  private List<String> captured() {
    List<String> all = new ArrayList<>();
    communicator.visitCaptured(
        graph ->
            graph.visit(
                (above, upTo) ->
                    all.add(
                        above
                            + "-"
                            + upTo
                            + ", "
                            + graph.replays()
                            + " times"
                            + (graph.isOver() ? ", over" : ""))));
    return all;
  }

  @Test
  void aGraphOfThisLibraryIsInTheSameOrder() {
    owned.get(0).beginCapture();
    launch(owned.get(0));
    try (CudaGraph graph = owned.get(0).endCapture()) {
      begin(1);
      launch(wrapped.get(1));
      end(1);
      order();
      graph.launch(owned.get(0));
      assertEquals("wait 0, record 0", order());
    }
  }

  /** Nobody says when it is launched, but its launches record the event. */
  @Test
  void aGraphOfOthersIsWaitedFor() {
    begin(0);
    launch(wrapped.get(0));
    end(0);
    launch(owned.get(1));
    owned.get(1).close();
    fake.fakeFail("cuEventQuery", CudaResult.NOT_READY);
    assertFalse(communicator.isIdle());
    fake.fakeFail("", 0);
    assertTrue(communicator.isIdle());
  }
}
