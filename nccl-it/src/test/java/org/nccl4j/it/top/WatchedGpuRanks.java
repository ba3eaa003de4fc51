package org.nccl4j.it.top;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.cli.Main;
import org.nccl4j.operation.Operation;

/**
 * A program that launches sums on its GPUs and watches itself: it prints a frame of {@code nccl
 * top}, its metrics, and the file that {@code nccl trace} makes of its recording.
 */
public final class WatchedGpuRanks {
  private static final int COUNT = 1 << 10;
  private static final int GROUPS = 3;

  /** Sums of a group, which a GPU's rank launches together. */
  private static final int OF_GROUP = 4;

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  /**
   * Between the clocks of the recording and of a GPU, which tells the time of an operation's end.
   */
  private static final long CLOCKS_NANOS = 200_000;

  /** Ends the text of how many events do not enclose their operation. */
  public static final String OUTSIDE = " events end before their operation";

  private WatchedGpuRanks() {}

  /** Argument: a folder for files. */
  public static void main(String[] arguments) throws Exception {
    watch(List.<Device>copyOf(Devices.cuda().list()), Path.of(arguments[0]))
        .forEach(System.out::println);
  }

  /** Returns the frame, the metrics, and what trace prints and writes. */
  public static List<String> watch(List<Device> gpus, Path folder) throws Exception {
    try (Recording recording = new Recording()) {
      recording.enable("org.nccl4j.Operation");
      recording.start();
      List<Communicator> ranks =
          Communicator.initAll(gpus, CommunicatorConfig.defaults().withName("watched"));
      Meter meter = new Meter(reports(), 0);
      launch(ranks);
      boolean ended =
          Patience.until(
              () -> reports().stream().allMatch(rank -> rank.ended() == GROUPS * OF_GROUP),
              PATIENCE);
      if (!ended) {
        throw new IllegalStateException("not all operations are seen to end: " + reports());
      }
      PrometheusText metrics = new PrometheusText(process -> true);
      metrics.add(meter.frame(reports(), 1_000_000_000, 1000));
      String pid = Long.toString(ProcessHandle.current().pid());
      Path recorded = folder.resolve("recorded.jfr");
      // An operation's event comes some milliseconds after its end.
      int expected = gpus.size() * GROUPS * OF_GROUP;
      if (!Patience.until(() -> recorded(recording, recorded) == expected, PATIENCE)) {
        throw new IllegalStateException("not all operations have an event");
      }
      Path file = folder.resolve("trace.json");
      List<String> seen =
          List.of(
              nccl("top", "--json", "-n", "1", "-i", "0.1", pid),
              metrics.toString(),
              nccl("trace", "-o", file.toString(), recorded.toString()),
              Files.readString(file),
              outside(recorded) + OUTSIDE);
      ranks.forEach(Communicator::close);
      return seen;
    }
  }

  /** Counts the events that end before their operation does. */
  private static long outside(Path recorded) throws IOException {
    return RecordingFile.readAllEvents(recorded).stream()
        .filter(event -> event.getEventType().getName().equals("org.nccl4j.Operation"))
        .filter(
            event -> {
              long run = event.getLong("runNanos");
              return run < 0 || run > event.getDuration().toNanos() + CLOCKS_NANOS;
            })
        .count();
  }

  private static long recorded(Recording recording, Path file) {
    try {
      recording.dump(file);
      return RecordingFile.readAllEvents(file).stream()
          .filter(event -> event.getEventType().getName().equals("org.nccl4j.Operation"))
          .count();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static List<RankReport> reports() {
    return FlightReader.ofThisProcess(Operation.keys()).stream()
        .filter(rank -> rank.name().equals("watched"))
        .toList();
  }

  private static void launch(List<Communicator> ranks) {
    List<DeviceMemory> data = ranks.stream().map(r -> r.device().allocate(4L * COUNT)).toList();
    List<DeviceStream> streams = ranks.stream().map(r -> r.device().createStream()).toList();
    for (int group = 0; group < GROUPS; group++) {
      Group.run(
          () -> {
            for (int n = 0; n < OF_GROUP * ranks.size(); n++) {
              int rank = n % ranks.size();
              DeviceMemory own = data.get(rank);
              ranks
                  .get(rank)
                  .allReduce(own, own, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
            }
          });
    }
    streams.forEach(DeviceStream::synchronize);
    streams.forEach(DeviceStream::close);
    data.forEach(DeviceMemory::close);
  }

  private static String nccl(String... words) {
    StringWriter out = new StringWriter();
    PrintWriter to = new PrintWriter(out);
    int status = Main.run(to, to, words);
    return out + "status " + status;
  }

  /**
   * Finds what is missing in what was seen of some GPUs.
   *
   * @param seen the texts one after the other
   * @return empty if all is there
   */
  public static String missing(String seen, int ranks) {
    StringBuilder missing = new StringBuilder();
    for (int rank = 0; rank < ranks; rank++) {
      String labels = "{communicator=\"watched\",rank=\"" + rank + "\",";
      for (String each :
          List.of(
              "nccl4j_operations_total" + labels,
              "nccl4j_operation_bytes_total" + labels,
              "{\"name\":\"watched, rank " + rank + "\"}")) {
        if (!seen.contains(each)) {
          missing.append(each).append('\n');
        }
      }
    }
    int spans = seen.split("\"name\":\"all_reduce\",\"ph\":\"X\"", -1).length - 1;
    if (spans != ranks * GROUPS * OF_GROUP) {
      missing.append(spans).append(" spans\n");
    }
    return missing.toString();
  }
}
