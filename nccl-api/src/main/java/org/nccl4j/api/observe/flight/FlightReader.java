package org.nccl4j.api.observe.flight;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.os.IoErrorText;

/** Reads flight recorders: this process's, another one's, or a copy in a file. */
public final class FlightReader {
  private static final int SIZE = (1 + FlightFile.SLOTS) * FlightFile.PAGE;
  private static final Path PROC = Path.of("/proc");

  private FlightReader() {}

  /** This process's ranks; none if it never had a communicator. */
  public static List<RankReport> ofThisProcess(List<String> operations) {
    return parse(FlightFile.open(operations).copy());
  }

  /** The bytes of a process's recorder, for a file; empty if it has none that can be read. */
  public static Optional<byte[]> copy(long pid) {
    Path descriptors = PROC.resolve(Long.toString(pid)).resolve("fd");
    try (DirectoryStream<Path> all = Files.newDirectoryStream(descriptors)) {
      for (Path descriptor : all) {
        Optional<byte[]> bytes = recorder(descriptor);
        if (bytes.isPresent()) {
          return bytes;
        }
      }
    } catch (IOException | UncheckedIOException e) {
      // It ended meanwhile, or is another user's: nothing can be said of it.
      return Optional.empty();
    }
    return Optional.empty();
  }

  /** The bytes behind a descriptor; empty if they are no recorder, or it has been closed. */
  private static Optional<byte[]> recorder(Path descriptor) {
    try {
      if (Files.readSymbolicLink(descriptor).toString().startsWith("/memfd:nccl4j")
          && Files.size(descriptor) == SIZE) {
        byte[] bytes = Files.readAllBytes(descriptor);
        if (isRecorder(ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()))) {
          return Optional.of(bytes);
        }
      }
    } catch (IOException e) {
      return Optional.empty(); // the process goes on meanwhile
    }
    return Optional.empty();
  }

  /**
   * The ranks of another process of this host and user.
   *
   * @throws InvalidArgumentException if it has no recorder that can be read
   * @throws InvalidUsageException as for {@link #requireProcesses()}
   */
  public static List<RankReport> ofProcess(long pid) {
    requireProcesses();
    byte[] bytes =
        copy(pid)
            .orElseThrow(
                () ->
                    new InvalidArgumentException(
                        ErrorId.NAME,
                        "process %d has no flight recorder that can be read".formatted(pid),
                        "name a process on this host, of this user, that runs and has a"
                            + " communicator of nccl4j"));
    return parse(bytes, pid);
  }

  /**
   * Refuses where other processes cannot be found; without this, there seem to be none.
   *
   * @throws InvalidUsageException if this system has no /proc
   */
  public static void requireProcesses() {
    requireProcesses(PROC);
  }

  /** The sentence for a user whose host has no recorder that can be read. */
  public static String none() {
    return "no process of this host that this user may read has a communicator of nccl4j";
  }

  static void requireProcesses(Path processes) {
    if (!Files.isDirectory(processes)) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "other processes' flight recorders are found in %s, which %s does not have here"
              .formatted(processes, System.getProperty("os.name")),
          "ask the job itself (nccl diagnose --job ID, nccl top --job ID), or let the program write"
              + " its recorder to a file with NCCL4J_FLIGHT_FILE and pass that to nccl diagnose");
    }
  }

  /** The ranks of all processes of this host that can be read. */
  public static List<RankReport> ofThisHost() {
    List<RankReport> reports = new ArrayList<>();
    for (long pid : pids()) {
      copy(pid).ifPresent(bytes -> reports.addAll(parse(bytes, pid)));
    }
    return reports;
  }

  private static List<Long> pids() {
    List<Long> pids = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(PROC, "[0-9]*")) {
      all.forEach(path -> pids.add(Long.valueOf(path.getFileName().toString())));
    } catch (IOException e) {
      return List.of();
    }
    return pids;
  }

  /**
   * The ranks in a file.
   *
   * @throws InvalidArgumentException if it cannot be read or is no copy of a recorder
   */
  public static List<RankReport> ofFile(Path file) {
    try (InputStream in = Files.newInputStream(file)) {
      ByteBuffer bytes = ByteBuffer.wrap(in.readNBytes(SIZE + 1)).order(ByteOrder.nativeOrder());
      if (!isRecorder(bytes)) {
        throw new InvalidArgumentException(
            ErrorId.FILE,
            file + " is not a copy of a flight recorder of this version of nccl4j",
            "pass files that nccl diagnose --save or NCCL4J_FLIGHT_FILE wrote, in this version");
      }
      return parse(bytes);
    } catch (IOException e) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          file + " cannot be read: " + IoErrorText.of(e),
          "pass the name of a readable file",
          e);
    }
  }

  private static boolean isRecorder(ByteBuffer bytes) {
    return bytes.capacity() == SIZE
        && bytes.getLong(0) == FlightFile.MAGIC
        && bytes.getInt(8) == FlightFile.VERSION;
  }

  /** "S", "R", "T" and so on; empty if it is not known. */
  private static String state(long pid) {
    try {
      String stat = Files.readString(PROC.resolve(pid + "/stat"));
      return stat.substring(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
    } catch (IOException | IndexOutOfBoundsException e) {
      return "";
    }
  }

  /** The ranks of a process, by its number here: in a container it knows itself by another. */
  private static List<RankReport> parse(byte[] bytes, long pid) {
    return parse(ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()), pid, state(pid));
  }

  /** The ranks in a recorder, of the process that it names. */
  static List<RankReport> parse(ByteBuffer bytes) {
    return parse(bytes, bytes.getLong(FlightFile.PID), "");
  }

  private static List<RankReport> parse(ByteBuffer bytes, long pid, String state) {
    String host = text(bytes, FlightFile.HOST, 64);
    String[] names = text(bytes, FlightFile.NAMES, FlightFile.PAGE - FlightFile.NAMES).split(" ");
    ProcessReport process = new ProcessReport(host, pid, state);
    List<RankReport> reports = new ArrayList<>();
    for (int slot = 0; slot < FlightFile.SLOTS; slot++) {
      ByteBuffer page =
          bytes.slice((1 + slot) * FlightFile.PAGE, FlightFile.PAGE).order(ByteOrder.nativeOrder());
      if (page.getInt(FlightRecorder.IN_USE) == 1 && isRank(page)) {
        reports.add(rank(process, names, page));
      }
    }
    return reports;
  }

  /** True if a page's rank is one of its ranks: not so where a file is damaged. */
  private static boolean isRank(ByteBuffer page) {
    int rank = page.getInt(FlightRecorder.RANK);
    return rank >= 0 && rank < page.getInt(FlightRecorder.RANKS);
  }

  static RankReport rank(ProcessReport process, String[] names, ByteBuffer page) {
    long launchedAndRun = page.getLong(FlightRecorder.LAUNCHED);
    long launched = FlightRecorder.launched(launchedAndRun);
    long observed = page.getLong(FlightRecorder.OBSERVED);
    int length = Math.max(0, Math.min(page.getInt(FlightRecorder.NAME), FlightRecorder.NAME_BYTES));
    byte[] letters = new byte[length];
    page.get(FlightRecorder.NAME + 4, letters);
    long ended = Math.min(launched, page.getLong(FlightRecorder.ENDED));
    long upTo = Math.min(launched, page.getLong(FlightRecorder.UP_TO));
    RunReader runs = new RunReader(page, launchedAndRun, names);
    return new RankReport(
        process,
        page.getLong(FlightRecorder.COMMUNICATOR),
        new String(letters, StandardCharsets.UTF_8),
        page.getInt(FlightRecorder.RANK),
        page.getInt(FlightRecorder.RANKS),
        launched,
        ended,
        upTo,
        page.getInt(FlightRecorder.WAITS_FOR),
        Math.max(0, observed - page.getLong(FlightRecorder.GREW)),
        observed,
        page.getInt(FlightRecorder.FAILED) != 0,
        new RankReport.Front(
            page.getLong(FlightRecorder.FRONT),
            page.getLong(FlightRecorder.FRONT_STREAM),
            Math.max(0, observed - page.getLong(FlightRecorder.FRONT_SINCE)),
            page.getLong(FlightRecorder.FRONT_NUMBER)),
        runs.last(ended + 1, upTo),
        runs.runs(),
        LinkRecord.read(page),
        text(page, FlightRecorder.DEVICE, FlightRecorder.DEVICE_BYTES),
        new RankReport.Replays(
            page.getLong(FlightRecorder.REPLAYED),
            page.getLong(FlightRecorder.REPLAYED + 8),
            page.getLong(FlightRecorder.REPLAYED + 16)));
  }

  static String text(ByteBuffer bytes, int at, int most) {
    int length = 0;
    while (length < most && bytes.get(at + length) != 0) {
      length++;
    }
    byte[] letters = new byte[length];
    bytes.get(at, letters);
    return new String(letters, StandardCharsets.UTF_8);
  }
}
