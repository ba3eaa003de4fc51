package org.nccl4j.api.observe;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.observe.RankReport.Operation;
import org.nccl4j.api.observe.RankReport.ProcessReport;
import org.nccl4j.api.settings.FileProblem;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;

/** Reads flight recorders: this process's, another one's, or a copy in a file. */
public final class FlightReader {
  private static final int SIZE = (1 + FlightFile.SLOTS) * FlightFile.PAGE;
  private static final Path PROC = Path.of("/proc");

  private FlightReader() {}

  /** This process's ranks; none if it never had a communicator. */
  static List<RankReport> ofThisProcess(List<String> operations) {
    return parse(FlightFile.open(operations).copy(), "");
  }

  /** The bytes of a process's recorder, for a file; empty if it has none that can be read. */
  public static Optional<byte[]> copy(long pid) {
    Path descriptors = PROC.resolve(Long.toString(pid)).resolve("fd");
    try (DirectoryStream<Path> all = Files.newDirectoryStream(descriptors)) {
      for (Path descriptor : all) {
        if (Files.readSymbolicLink(descriptor).toString().startsWith("/memfd:nccl4j")
            && Files.size(descriptor) == SIZE) {
          byte[] bytes = Files.readAllBytes(descriptor);
          if (isRecorder(ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()))) {
            return Optional.of(bytes);
          }
        }
      }
    } catch (IOException | UncheckedIOException e) {
      // It ended meanwhile, or is another user's: nothing can be said of it.
      return Optional.empty();
    }
    return Optional.empty();
  }

  /**
   * The ranks of another process of this host and user.
   *
   * @throws InvalidArgumentException if it has no recorder that can be read
   */
  public static List<RankReport> ofProcess(long pid) {
    byte[] bytes =
        copy(pid)
            .orElseThrow(
                () ->
                    new InvalidArgumentException(
                        ErrorId.NAME,
                        "process %d has no flight recorder that can be read".formatted(pid),
                        "name a process on this host, of this user, that runs and has a"
                            + " communicator of nccl4j"));
    return parse(ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()), state(pid));
  }

  /** The ranks of all processes of this host that can be read. */
  public static List<RankReport> ofThisHost() {
    List<RankReport> reports = new ArrayList<>();
    for (long pid : pids()) {
      copy(pid)
          .ifPresent(
              bytes ->
                  reports.addAll(
                      parse(ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()), state(pid))));
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
    try {
      ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.nativeOrder());
      if (!isRecorder(bytes)) {
        throw new InvalidArgumentException(
            ErrorId.FILE,
            file + " is no copy of a flight recorder",
            "pass files that nccl diagnose --save or NCCL4J_FLIGHT_FILE wrote");
      }
      return parse(bytes, "");
    } catch (IOException e) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          file + " cannot be read: " + FileProblem.of(e),
          "pass the name of a readable file",
          e);
    }
  }

  private static boolean isRecorder(ByteBuffer bytes) {
    return bytes.capacity() == SIZE
        && bytes.getLong(0) == FlightFile.MAGIC
        && bytes.getInt(8) >= 1
        && bytes.getInt(8) <= FlightFile.VERSION;
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

  static List<RankReport> parse(ByteBuffer bytes, String state) {
    String host = text(bytes, FlightFile.HOST, 64);
    String[] names = text(bytes, FlightFile.NAMES, FlightFile.PAGE - FlightFile.NAMES).split(" ");
    ProcessReport process = new ProcessReport(host, bytes.getLong(16), state);
    int version = bytes.getInt(8);
    List<RankReport> reports = new ArrayList<>();
    for (int slot = 0; slot < FlightFile.SLOTS; slot++) {
      ByteBuffer page =
          bytes.slice((1 + slot) * FlightFile.PAGE, FlightFile.PAGE).order(ByteOrder.nativeOrder());
      if (page.getInt(FlightLog.IN_USE) == 1) {
        reports.add(rank(process, names, page, version));
      }
    }
    return reports;
  }

  static RankReport rank(ProcessReport process, String[] names, ByteBuffer page, int version) {
    long launched = page.getLong(FlightLog.LAUNCHED);
    long observed = page.getLong(FlightLog.OBSERVED);
    int length = Math.max(0, Math.min(page.getInt(FlightLog.NAME), FlightLog.NAME_BYTES));
    byte[] letters = new byte[length];
    page.get(FlightLog.NAME + 4, letters);
    List<Operation> operations =
        version < 3 ? numbered(page, launched, names) : counted(page, launched, names);
    return new RankReport(
        process,
        page.getLong(FlightLog.COMMUNICATOR),
        new String(letters, StandardCharsets.UTF_8),
        page.getInt(FlightLog.RANK),
        page.getInt(FlightLog.RANKS),
        launched,
        Math.min(launched, page.getLong(FlightLog.ENDED)),
        Math.min(launched, page.getLong(FlightLog.UP_TO)),
        page.getInt(FlightLog.WAITS_FOR),
        Math.max(0, observed - page.getLong(FlightLog.GREW)),
        observed,
        page.getInt(FlightLog.FAILED) != 0,
        new RankReport.Front(
            page.getLong(FlightLog.FRONT),
            page.getLong(FlightLog.FRONT_STREAM),
            Math.max(0, observed - page.getLong(FlightLog.FRONT_SINCE))),
        operations);
  }

  /** The last operations, oldest first; the oldest may be overwritten just now. */
  private static List<Operation> counted(ByteBuffer page, long launched, String[] names) {
    Deque<Operation> operations = new ArrayDeque<>();
    long collectives = launched - page.getLong(FlightLog.OTHERS);
    for (long n = launched; n > Math.max(0, launched - FlightLog.ENTRIES + 1); n--) {
      int at = entry(n);
      long shape = page.getLong(at);
      Called called =
          new Called(
              (int) (shape >>> FlightLog.OPERATION_SHIFT),
              (int) (shape >>> FlightLog.TYPE_SHIFT) & 31,
              (int) (shape >>> FlightLog.OP_SHIFT) & 15,
              (int) shape,
              page.getLong(at + 8));
      Operation operation = operation(n, collectives, called, names);
      operations.addFirst(operation);
      collectives -= operation.isCollective() ? 1 : 0;
    }
    return List.copyOf(operations);
  }

  /** Likewise, of versions 1 and 2. */
  private static List<Operation> numbered(ByteBuffer page, long launched, String[] names) {
    List<Operation> operations = new ArrayList<>();
    for (long n = Math.max(0, launched - FlightLog.ENTRIES + 1) + 1; n <= launched; n++) {
      int at = entry(n);
      int what = (int) (page.getLong(at) >>> 32);
      Called called =
          new Called(
              what >>> 26,
              what >>> 21 & 31,
              what >>> 17 & 15,
              what & 0x1ffff,
              page.getLong(at + 8));
      operations.add(operation(n, (int) page.getLong(at), called, names));
    }
    return operations;
  }

  private static int entry(long number) {
    return FlightLog.RING + ((int) (number - 1) & (FlightLog.ENTRIES - 1)) * 16;
  }

  /** What an entry says: numbers of an operation, a type and an operator, root or peer. */
  private record Called(int code, int type, int op, int root, long count) {}

  private static Operation operation(long number, long collective, Called called, String[] names) {
    int root = called.root;
    long count = called.count;
    if (called.code >= names.length) {
      return new Operation(number, collective, "other", root, count, 0, "another operation");
    }
    String label = names[called.code];
    DataType type = DataType.values()[called.type % DataType.values().length];
    RedOp op = RedOp.values()[called.op % RedOp.values().length];
    String text =
        switch (label) {
          case "send" -> "send of %d %s to rank %d".formatted(count, type.label(), root);
          case "recv" -> "recv of %d %s from rank %d".formatted(count, type.label(), root);
          case "put_signal" -> "put of %d %s to rank %d".formatted(count, type.label(), root);
          case "signal" -> "signal to rank %d".formatted(root);
          case "wait_signal" -> "wait for a signal of rank %d".formatted(root);
          case "broadcast", "gather", "scatter" ->
              "%s of %d %s, root %d".formatted(label, count, type.label(), root);
          case "reduce" ->
              "reduce of %d %s (%s), root %d".formatted(count, type.label(), op.label(), root);
          case "all_reduce", "reduce_scatter" ->
              "%s of %d %s (%s)".formatted(label, count, type.label(), op.label());
          default -> "%s of %d %s".formatted(label, count, type.label());
        };
    return new Operation(number, collective, label, root, count, count * type.bytes(), text);
  }

  private static String text(ByteBuffer bytes, int at, int most) {
    int length = 0;
    while (length < most && bytes.get(at + length) != 0) {
      length++;
    }
    byte[] letters = new byte[length];
    bytes.get(at, letters);
    return new String(letters, StandardCharsets.UTF_8);
  }
}
