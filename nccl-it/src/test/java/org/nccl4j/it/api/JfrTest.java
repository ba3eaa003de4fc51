package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** Events for Java Flight Recorder. */
@Timeout(600)
class JfrTest {
  @TempDir private Path directory;

  private static void reduce(Ranks ranks, int times) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory data = Ranks.floats(1000, i -> 1)) {
            for (int n = 0; n < times; n++) {
              comm.allReduce(data, data, 1000, DataType.FLOAT32, RedOp.MAX, stream);
            }
            stream.synchronize();
          }
        });
  }

  private List<RecordedEvent> events(Recording recording, String communicator) throws Exception {
    Path file = directory.resolve("recording.jfr");
    recording.dump(file);
    List<RecordedEvent> events = new ArrayList<>(RecordingFile.readAllEvents(file));
    events.removeIf(
        event ->
            event.hasField("communicator")
                && !communicator.equals(event.getString("communicator")));
    return events;
  }

  private static List<RecordedEvent> named(List<RecordedEvent> events, String name) {
    return events.stream().filter(e -> e.getEventType().getName().equals(name)).toList();
  }

  @Test
  void operationsAndProxyStepsAreToldWhereARecordingAsks() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withName("recorded").withTransports(List.of("NET"));
    try (Recording recording = new Recording()) {
      recording.enable("org.nccl4j.Operation");
      recording.enable("org.nccl4j.ProxyStep");
      recording.start();
      try (Ranks ranks = new Ranks(2, config)) {
        reduce(ranks, 5);
      }
      recording.stop();
      List<RecordedEvent> all = events(recording, "recorded");
      List<RecordedEvent> operations = named(all, "org.nccl4j.Operation");
      assertEquals(10, operations.size());
      for (RecordedEvent operation : operations) {
        assertEquals("all_reduce", operation.getString("operation"));
        assertEquals(4000, operation.getLong("bytes"));
        assertTrue(operation.getDuration().toNanos() > 0);
      }
      assertEquals(
          Set.of(0, 1), operations.stream().map(e -> e.getInt("rank")).collect(Collectors.toSet()));
      List<RecordedEvent> steps = named(all, "org.nccl4j.ProxyStep");
      assertEquals(
          Set.of("0 send 1", "0 recv 1", "1 send 0", "1 recv 0"),
          steps.stream()
              .map(e -> e.getInt("rank") + " " + e.getString("direction") + " " + e.getInt("peer"))
              .collect(Collectors.toSet()));
      assertTrue(steps.stream().allMatch(step -> step.getLong("bytes") > 0));
    }
  }

  @Test
  void progressStallsAndFailuresAreToldToEveryRecording() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withName("stalled")
            .withOperationTimeout(Duration.ofSeconds(300));
    try (Recording recording = new Recording()) {
      recording.start();
      try (Ranks ranks = new Ranks(2, config);
          DeviceMemory data = Ranks.floats(16, i -> 1)) {
        reduce(ranks, 5);
        DeviceStream stream = ranks.streams.get(0);
        ranks.communicators.get(0).recv(data, 16, DataType.FLOAT32, 1, stream);
        stream.startNow();
        long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
        while (named(events(recording, "stalled"), "org.nccl4j.Stall").isEmpty()) {
          assertTrue(System.nanoTime() - end < 0, "nothing is told of a stall");
          Thread.onSpinWait();
        }
        ranks.communicators.get(0).abort();
      } catch (NcclException e) {
        assertEquals(ErrorId.ABORTED, e.id(), e.getMessage());
      }
      recording.stop();
      List<RecordedEvent> all = events(recording, "stalled");
      RecordedEvent stall = named(all, "org.nccl4j.Stall").get(0);
      assertEquals(0, stall.getInt("rank"));
      assertEquals(1, stall.getInt("waitsFor"));
      assertTrue(stall.getString("operation").contains("recv of 16 float"), stall.toString());
      assertTrue(stall.getLong("millis") >= 1000);
      assertTrue(
          named(all, "org.nccl4j.Progress").stream()
                  .filter(e -> e.getInt("rank") == 1)
                  .mapToLong(e -> e.getLong("ended"))
                  .sum()
              == 5,
          all.toString());
      RecordedEvent failure = named(all, "org.nccl4j.Failure").get(0);
      assertEquals("INVALID_USAGE", failure.getString("code"));
      assertTrue(failure.getString("message").contains("aborted by rank 0"), failure.toString());
    }
  }

  @Test
  void aRecordingThatAsksForNothingHasThePhasesOfCreationAlone() throws Exception {
    try (Recording recording = new Recording()) {
      recording.start();
      try (Ranks ranks = new Ranks(2, CommunicatorConfig.defaults().withName("phases"))) {
        reduce(ranks, 5);
      }
      recording.stop();
      List<RecordedEvent> all = events(recording, "phases");
      assertEquals(0, named(all, "org.nccl4j.Operation").size());
      assertEquals(0, named(all, "org.nccl4j.ProxyStep").size());
      assertTrue(phases(all).containsAll(Set.of("ranks meet", "transports", "connections")));
      assertFalse(phases(all).contains("bootstrap"));
    }
  }

  private static Set<String> phases(List<RecordedEvent> events) {
    return named(events, "org.nccl4j.InitPhase").stream()
        .map(e -> e.getString("phase"))
        .collect(Collectors.toSet());
  }

  @Test
  void comingTogetherIsAPhaseOfCreation() throws Exception {
    CommunicatorConfig apart = CommunicatorConfig.defaults().withSplitShare(false);
    try (Recording recording = new Recording()) {
      recording.start();
      try (Ranks ranks = Ranks.onHosts("aa", CommunicatorConfig.defaults().withName("met"))) {
        ranks.run(
            (comm, stream) -> comm.split(0, 0, apart.withName("met again")).orElseThrow().close());
      }
      recording.stop();
      assertTrue(phases(events(recording, "met")).contains("bootstrap"));
      assertTrue(phases(events(recording, "met again")).contains("bootstrap"));
    }
  }
}
