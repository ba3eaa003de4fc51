package org.nccl4j.api.plan.cost;

import java.io.IOException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * A file of measured times, as {@code ./nccl tune} writes it and NCCL4J_COSTS_FILE names it: its
 * times override all predictions. Lines:
 *
 * <pre>
 *   # a remark
 *   device NVIDIA H200
 *   4 AllReduce Ring Simple 32768:25.54 131072:25.44
 *   4 AllToAll DirectOneShot Simple 32768:5.02
 *   2x4/Socket AllToAll Rails Simple 32768:402.35
 * </pre>
 *
 * <p>The device that it is for; then ranks, collective, algorithm, protocol, and bytes of the whole
 * data with microseconds, ascending. The ranks are those of one host, or hosts, ranks on each and
 * the network between them. The algorithm may be a direct one, for buffers in windows (DirectNVLS
 * is NVLS in place, and NVLS LL lines by multicast); Pairwise is an operation that consists of
 * sends and receives, and Rails an all-to-all between hosts.
 *
 * @param file its name, for messages
 * @param device that it is for, as in {@code Device.name()}
 * @param lines of figures
 * @param probed whether a creation has measured them, with the settings that count now
 */
public record TunedTable(String file, String device, List<String> lines, boolean probed) {
  private static final String SETTING = "NCCL4J_COSTS_FILE";
  private static final String DEVICE = "device ";
  private static final Pattern LINE =
      Pattern.compile(
          "[1-9]\\d{0,5}(x[1-9]\\d{0,5}/\\w+)? \\w+ \\w+ \\w+( \\d{1,15}:\\d{1,9}(\\.\\d{1,6})?)+");

  /** A table that was measured elsewhere, or under other settings. */
  public TunedTable(String file, String device, List<String> lines) {
    this(file, device, lines, /* probed= */ false);
  }

  /** The same as the table of a probe. */
  public TunedTable ofProbe() {
    return new TunedTable(file, device, lines, /* probed= */ true);
  }

  /**
   * Reads a file; empty where none is named.
   *
   * @throws InvalidArgumentException if it cannot be read or something in it is wrong, with the
   *     line
   */
  public static Optional<TunedTable> read(String file) {
    if (file.isEmpty()) {
      return Optional.empty();
    }
    List<String> all;
    try {
      all = SettingFile.lines(Path.of(file));
    } catch (IOException | InvalidPathException e) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "%s=%s cannot be read (%s)".formatted(SETTING, file, IoErrorText.of(e)),
          "name a file that ./nccl tune wrote and that every rank can read",
          e);
    }
    return Optional.of(parse(file, all));
  }

  /**
   * The table of a file's lines.
   *
   * @throws InvalidArgumentException if something in it is wrong, with the line
   */
  public static TunedTable parse(String file, List<String> all) {
    String device = null;
    List<String> lines = new ArrayList<>();
    for (int number = 1; number <= all.size(); number++) {
      String line = all.get(number - 1).strip();
      if (line.startsWith(DEVICE) && device == null) {
        device = line.substring(DEVICE.length()).strip();
      } else if (!line.isEmpty() && !line.startsWith("#")) {
        check(device, line, file, number);
        lines.add(line);
      }
    }
    if (lines.isEmpty()) {
      throw wrong(file, all.size(), "the file ends without a figure");
    }
    return new TunedTable(file, device, List.copyOf(lines));
  }

  private static void check(String device, String line, String file, int number) {
    if (device == null) {
      throw wrong(file, number, "no line 'device NAME' comes before the first figures");
    }
    if (!LINE.matcher(line).matches()) {
      throw wrong(
          file, number, "a line is: ranks collective algorithm protocol bytes:microseconds ...");
    }
    String[] words = line.split(" ");
    boolean known =
        isDirect(words)
            || Operation.collectives().stream().anyMatch(c -> c.label().equals(words[1]))
                && Algorithm.overConnections().stream().anyMatch(a -> a.label().equals(words[2]))
                && Stream.of(Protocol.values()).anyMatch(p -> p.label().equals(words[3]));
    if (!known) {
      throw wrong(file, number, "there is no %s %s %s".formatted(words[1], words[2], words[3]));
    }
    long before = 0;
    for (int i = 4; i < words.length; i++) {
      Map.Entry<Long, Double> point = CostPoints.read(new String[] {words[i]}, 0).firstEntry();
      if (point.getKey() <= before || point.getValue() <= 0) {
        throw wrong(file, number, "sizes must ascend from 1 and times be more than 0: " + words[i]);
      }
      before = point.getKey();
    }
  }

  /** True if a line is of a direct way, or of sends and receives that are compared with those. */
  private static boolean isDirect(String[] words) {
    return Operation.ofAllRanks().stream().anyMatch(o -> o.label().equals(words[1]))
        && (isExchange(words)
            || Algorithm.betweenWindows().stream()
                .anyMatch(
                    w -> w.inTables().equals(words[2]) && w.protocol().label().equals(words[3])));
  }

  private static boolean isExchange(String[] words) {
    return words[3].equals(Protocol.SIMPLE.label())
        && (words[2].equals(Algorithm.PAIRWISE.label())
            || words[2].equals(Algorithm.RAILS.label())
                && Operation.ofAllRanks().stream()
                    .filter(Algorithm.RAILS::has)
                    .anyMatch(operation -> operation.label().equals(words[1])));
  }

  private List<String> lines(boolean direct) {
    return lines.stream().filter(line -> isDirect(line.split(" ")) == direct).toList();
  }

  private static InvalidArgumentException wrong(String file, int line, String what) {
    return new InvalidArgumentException(
        ErrorId.FILE,
        "%s=%s, line %d: %s".formatted(SETTING, file, line, what),
        "write it again with ./nccl tune");
  }

  /** Differs, almost surely, between tables by which ranks would choose differently. */
  public int digest() {
    return 31 * device.hashCode() + lines.hashCode();
  }

  /**
   * True if it has times of some ranks.
   *
   * @param ranks as {@link RankPlacement#inTables} has them
   */
  public boolean hasTimes(String ranks) {
    return lines.stream().anyMatch(line -> line.startsWith(ranks + " "));
  }

  /** These figures before a model's, if there are some for ranks of a device. */
  CostModel over(CostModel model, String ranks, String itsDevice) {
    return figures(ranks, itsDevice).map(costs -> costs.before(model)).orElse(model);
  }

  /** The figures of algorithms over connections for ranks of a device, if there are some. */
  Optional<MeasuredCosts> figures(String ranks, String itsDevice) {
    return device.equals(itsDevice)
        ? MeasuredCosts.tuned(this, lines(false), ranks)
        : Optional.empty();
  }

  /** The same, and those of algorithms on multicast windows. */
  Optional<MeasuredCosts> figuresWithMulticast(String ranks, String itsDevice) {
    List<String> some =
        lines.stream()
            .filter(
                line -> {
                  String[] words = line.split(" ");
                  return !isDirect(words) || Algorithm.ofMulticast(words[2], words[3]).isPresent();
                })
            .toList();
    return device.equals(itsDevice) ? MeasuredCosts.tuned(this, some, ranks) : Optional.empty();
  }

  /** The same of algorithms between windows, and of sends and receives. */
  CostModel overWindows(CostModel model, String ranks, String itsDevice) {
    return device.equals(itsDevice) ? new TunedWindowCosts(model, this, lines(true), ranks) : model;
  }
}
