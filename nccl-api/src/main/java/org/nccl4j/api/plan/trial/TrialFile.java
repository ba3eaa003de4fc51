package org.nccl4j.api.plan.trial;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.plan.cost.CostPoints;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.os.WholeFile;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * A rank's file of measured calls, which grows while the job runs. Lines:
 *
 * <pre>
 *   nccl4j trials 3
 *   communicator 5f0c21 rank 0 of 4
 *   device NVIDIA H200
 *   predicted AllReduce RING LL 128:7.20 512:7.21
 *   chosen 0 398 AllReduce RING LL 4096 7.50:8.91
 *   tried 0 399 AllReduce TREE LL 4096 9.20:8.14
 *   missing 2 3
 * </pre>
 *
 * <p>The ranks are as in a table of {@code ./nccl tune}: 2x4/Socket on several hosts. Of a measured
 * call: the number of its shape, its number among the calls of that shape, the collective,
 * algorithm and protocol, bytes of the whole data, and predicted and measured microseconds. Only
 * rank 0 writes predictions. Missing are ranks of the machine that have not joined in this folder,
 * so that nothing is tried; version 2 has no such line. A last line that is not whole is ignored:
 * it is being written. Algorithms have the names of {@link Algorithm}, since NVLS through slots and
 * in place have one label.
 */
public final class TrialFile {
  private static final String VERSION = "nccl4j trials 3";

  /** Of the version before, whose files are read, too. */
  private static final String OLDER = "nccl4j trials 2";

  private static final String PREFIX = "trials-";
  private static final String SUFFIX = ".txt";

  private static final int SAMPLE_WORDS = 8;
  private static final int PREDICTED_WORDS = 4;

  private TrialFile() {}

  /** The name of a rank's file. */
  static String name(long communicator, int rank, long pid) {
    return PREFIX + Long.toHexString(communicator) + "-" + rank + "-" + pid + SUFFIX;
  }

  static List<String> header(long communicator, int rank, String ranks, String device) {
    return List.of(
        VERSION,
        "communicator " + Long.toHexString(communicator) + " rank " + rank + " of " + ranks,
        "device " + device);
  }

  static String line(TrialTimes.Way way, TreeMap<Long, Double> predicted) {
    return "predicted " + text(way) + CostPoints.write(predicted);
  }

  static String line(TrialTimes.Sample sample) {
    return String.format(
        Locale.ROOT,
        "%s %d %d %s %d %.2f:%.2f",
        sample.chosen() ? "chosen" : "tried",
        sample.shape(),
        sample.call(),
        text(sample.way()),
        sample.bytes(),
        sample.predicted(),
        sample.measured());
  }

  /** Ranks that have not joined in the folder; at least one. */
  static String missing(List<Integer> ranks) {
    return "missing " + ranks.stream().map(String::valueOf).collect(Collectors.joining(" "));
  }

  private static String text(TrialTimes.Way way) {
    return way.operation().label() + " " + way.algorithm().name() + " " + way.protocol().label();
  }

  /**
   * Creates a file, with its folder; an older one of the same name is replaced. The file has all
   * lines as soon as it is there: who reads the folder meanwhile never sees a part of its header.
   */
  static void create(Path file, List<String> lines) throws IOException {
    TrialFolder.make(file.toAbsolutePath().getParent());
    WholeFile.write(file, (String.join("\n", lines) + "\n").getBytes(StandardCharsets.UTF_8));
  }

  static void append(Path file, List<String> lines) throws IOException {
    Files.write(
        file, lines, StandardCharsets.UTF_8, StandardOpenOption.APPEND, LinkOption.NOFOLLOW_LINKS);
  }

  /**
   * Reads the files of a folder.
   *
   * @throws InvalidArgumentException if there is none, or if one cannot be read or is damaged, with
   *     the line
   */
  public static List<TrialTimes> readAll(Path folder) {
    List<Path> files;
    try (Stream<Path> all = Files.list(folder)) {
      files = all.filter(TrialFile::isOne).sorted().toList();
    } catch (IOException e) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "%s cannot be read (%s)".formatted(folder, IoErrorText.of(e)),
          "name the folder that NCCL4J_TRIALS named on the ranks of the job",
          e);
    }
    if (files.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "there is no file of trials in " + folder,
          "run the job with NCCL4J_TRIALS=%s on all ranks; a rank writes its file once a collective"
                  .formatted(folder)
              + " of one size has been called some hundred times");
    }
    return files.stream().map(TrialFile::read).toList();
  }

  private static boolean isOne(Path file) {
    String name = file.getFileName().toString();
    return name.startsWith(PREFIX) && name.endsWith(SUFFIX) && Files.isRegularFile(file);
  }

  private static TrialTimes read(Path file) {
    try {
      String text = Files.readString(file); // once, since it grows
      List<String> lines = new ArrayList<>(text.lines().toList());
      if (!text.endsWith("\n") && !lines.isEmpty()) {
        lines.remove(lines.size() - 1);
      }
      return parse(file.toString(), lines);
    } catch (IOException e) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "%s cannot be read (%s)".formatted(file, IoErrorText.of(e)),
          "make it readable for this user, or remove it",
          e);
    }
  }

  static TrialTimes parse(String file, List<String> lines) {
    Map<TrialTimes.Way, TreeMap<Long, Double>> predictions = new LinkedHashMap<>();
    List<TrialTimes.Sample> samples = new ArrayList<>();
    List<Integer> missing = new ArrayList<>();
    if (lines.size() < 3 || !List.of(VERSION, OLDER).contains(lines.get(0))) {
      throw damaged(file, 1, "it does not begin with '%s'".formatted(VERSION));
    }
    int number = 2;
    try {
      String[] whose = lines.get(1).split(" ");
      String device = lines.get(2).substring("device ".length());
      for (number = 4; number <= lines.size(); number++) {
        String[] words = lines.get(number - 1).split(" ");
        switch (words[0]) {
          case "predicted" -> predictions.put(way(words, 1), points(words));
          case "chosen", "tried" -> samples.add(sample(words));
          case "missing" -> {
            for (int word = 1; word < words.length; word++) {
              missing.add(Integer.parseInt(words[word]));
            }
          }
          default -> throw new IllegalArgumentException(words[0]);
        }
      }
      return new TrialTimes(
          Long.parseUnsignedLong(whose[1], 16), whose[5], device, predictions, samples, missing);
    } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
      throw damaged(file, number, "it is not a line of a file of trials");
    }
  }

  private static TrialTimes.Sample sample(String[] words) {
    if (words.length != SAMPLE_WORDS) {
      throw new IllegalArgumentException("words: " + words.length);
    }
    String[] times = words[7].split(":");
    return new TrialTimes.Sample(
        Integer.parseInt(words[1]),
        Long.parseLong(words[2]),
        words[0].equals("chosen"),
        way(words, 3),
        Long.parseLong(words[6]),
        Double.parseDouble(times[0]),
        Double.parseDouble(times[1]));
  }

  private static TreeMap<Long, Double> points(String[] words) {
    TreeMap<Long, Double> points = CostPoints.read(words, PREDICTED_WORDS);
    if (points.isEmpty()) {
      throw new IllegalArgumentException("no point");
    }
    return points;
  }

  private static TrialTimes.Way way(String[] words, int from) {
    return new TrialTimes.Way(
        labelled(Operation.values(), Operation::label, words[from]),
        labelled(Algorithm.values(), Algorithm::name, words[from + 1]),
        labelled(Protocol.values(), Protocol::label, words[from + 2]));
  }

  private static <T> T labelled(T[] values, Function<T, String> label, String name) {
    return Stream.of(values)
        .filter(value -> label.apply(value).equals(name))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException(name));
  }

  private static InvalidArgumentException damaged(String file, int line, String what) {
    return new InvalidArgumentException(
        ErrorId.FILE,
        "%s, line %d: %s".formatted(file, line, what),
        "remove the file; a job with NCCL4J_TRIALS writes a new one");
  }
}
