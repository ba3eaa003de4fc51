package org.nccl4j.it.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.it.topo.MachineFile;
import org.nccl4j.operation.Operation;

/** Predictions for GPUs over NVLink, beside the times of the pages with measurements. */
class PlanErrorTest {
  /** The times measured eagerly come first. */
  private static final String HEADER =
      "| bytes | all_reduce | all_gather | reduce_scatter | reduce | broadcast | sendrecv | alltoall |";

  /**
   * A column of a page, microseconds by bytes.
   *
   * @param name of the column
   */
  private static Map<Long, Double> measured(int gpus, String name) throws IOException {
    List<String> lines =
        Files.readAllLines(Path.of("../docs/benchmarks/h200-x%d.md".formatted(gpus)));
    int header = lines.indexOf(HEADER);
    int column = Arrays.asList(HEADER.split("\\s*\\|\\s*")).indexOf(name);
    Map<Long, Double> times = new TreeMap<>();
    for (String line : lines.subList(header + 2, lines.size())) {
      if (!line.startsWith("|")) {
        break;
      }
      String[] cells = line.split("\\s*\\|\\s*");
      String cell = cells.length > column ? cells[column] : "";
      if (!cell.isEmpty()) {
        times.put(Long.parseLong(cells[1]), Double.parseDouble(cell.split(" / ")[0]));
      }
    }
    return times;
  }

  /**
   * The measured calls had windows, which the plan leaves out: all-to-alls of 512 KiB are faster in
   * them, by lines that carry both ways at once.
   */
  @ParameterizedTest
  @CsvSource({
    "2, ALL_TO_ALL, alltoall, 0.9, 1.65",
    "4, ALL_TO_ALL, alltoall, 0.9, 1.5",
    "2, SEND, sendrecv, 0.9, 1.15",
    "4, SEND, sendrecv, 0.9, 1.15"
  })
  void messagesTakeWhatTheyTookOnH200(
      int gpus, Operation operation, String name, double least, double most) throws IOException {
    GroupCosts costs =
        new GroupCosts(
            MachineFile.read(Path.of("dgx-h100")),
            Settings.ofProcess(Map.of("NCCL_NVLS_ENABLE", "0")),
            /* model= */ "");
    Map<Long, Double> measured = measured(gpus, name);
    assertTrue(measured.size() >= 14, measured.toString());
    assertEquals(2147483648L, measured.keySet().stream().reduce(0L, Math::max));
    measured.forEach(
        (bytes, time) -> {
          AlgorithmChoice way =
              costs.cost(new Traffic(Traffic.Axis.expert, operation, gpus, 0, 1, bytes, 1));
          double error = way.microseconds() / time;
          assertTrue(
              error >= least && error <= most,
              "%s of %d bytes: %s, measured %.2f us".formatted(name, bytes, way, time));
        });
  }
}
