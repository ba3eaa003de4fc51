package org.nccl4j.api.plan.cost;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * Figures that come with the library, for a model of GPU and a number of ranks: a file of this
 * package, such as nvidia-h200.costs, which says what its lines mean. A model with the same links
 * and multiprocessors as a measured one uses its figures; a number of ranks that was not measured
 * uses those of the next greater number.
 *
 * @param file its name
 * @param ranks that were measured
 * @param lines words of the lines of so many ranks
 */
record MeasuredTable(String file, int ranks, List<String[]> lines) {
  /** The H100 on SXM5 boards differs from the H200 by its memory alone. */
  private static final Map<String, String> LIKE = Map.of("NVIDIA H100 80GB HBM3", "NVIDIA H200");

  /**
   * The figures, if there are some that fit.
   *
   * @param model as the driver names it
   * @param kind of figures: the file's suffix
   */
  static Optional<MeasuredTable> find(String model, String kind, int nRanks) {
    String file =
        LIKE.getOrDefault(model, model).toLowerCase(Locale.ROOT).replace(' ', '-') + "." + kind;
    try (InputStream in = MeasuredTable.class.getResourceAsStream(file)) {
      if (in == null) {
        return Optional.empty();
      }
      List<String[]> all =
          new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))
              .lines()
              .filter(line -> !line.isEmpty() && !line.startsWith("#"))
              .map(line -> line.split(" "))
              .toList();
      return all.stream()
          .map(words -> Integer.parseInt(words[0]))
          .filter(measured -> measured >= nRanks)
          .min(Integer::compare)
          .map(
              measured ->
                  new MeasuredTable(
                      file,
                      measured,
                      all.stream()
                          .filter(words -> Integer.parseInt(words[0]) == measured)
                          .toList()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns the origin of the figures, as a sentence. */
  String source(int nRanks) {
    return "measured, " + file + (ranks == nRanks ? "" : ", with %d ranks".formatted(ranks));
  }
}
