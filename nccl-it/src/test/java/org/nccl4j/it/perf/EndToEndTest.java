package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.it.cli.Main;
import org.nccl4j.operation.Operation;

/** The whole command with the real engine, briefly. */
@Timeout(600)
final class EndToEndTest {
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  private int perf(String line) {
    return perf(line, 3);
  }

  private int perf(String line, int iterations) {
    List<String> words = new ArrayList<>(List.of("perf"));
    words.addAll(List.of(line.split(" ")));
    words.addAll(List.of("-n", Integer.toString(iterations), "-w", "1", "--jit-warmup", "0"));
    return Main.run(new PrintWriter(out), new PrintWriter(err), words.toArray(new String[0]));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "all -t 1 -b 0 -e 4K -f 16",
        "all -t 3 -b 4 -e 64K -f 32",
        "all -t 4 -b 1K -e 5K -i 1000",
        "all_reduce -t 3 -d all -o all -b 1K -e 1K",
        "reduce -t 3 -r -1 -b 100 -e 100K -f 10",
        "all_reduce -t 2 -m 4 -z 1 -e 64",
        "broadcast -t 5 -c 3 -a 3 --algo Ring --proto Simple -e 4K",
        "all --processes 2 -b 8 -e 256K -f 64",
        "all -t 4 -b 4 -e 1M -f 64 --algo NVLS",
        "all -t 3 -b 4 -e 1M -f 64 -R 1",
        "all -t 3 -b 4 -e 1M -f 64 -R 2",
        "all --processes 2 -b 64 -e 256K -f 64 -R 1",
      })
  void everythingIsRight(String line) {
    assertRight(line, 3);
  }

  private void assertRight(String line, int iterations) {
    int status = perf(line, iterations);
    assertEquals(0, status, () -> out + "" + err);
    assertTrue(out.toString().contains("# Out of bounds values : 0 OK"));
    assertTrue(!out.toString().contains("WRONG"), out::toString);
  }

  /**
   * Every type and operator, at counts that fit no slot or word, across processes: one launch of
   * processes for each line.
   */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "all --processes 3 -d all -o all -b 12696 -e 12696",
        "all_reduce --processes 2 -d all -o all -b 56 -e 3K -f 51 --algo Tree --proto LL128",
        "reduce_scatter --processes 4 -d all -o all -b 96 -e 9K -f 90 --algo Ring --proto LL",
      })
  void everyTypeAndOperatorIsRightAcrossProcesses(String line) {
    assertRight(line, 1);
  }

  /** Trees and one-shot of as many ranks as large hosts have cores. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "all -t 32 -b 1K -e 64K -f 64",
        "all_reduce,all_gather,reduce_scatter,broadcast,reduce,alltoall -t 64 -b 4K -e 4K",
      })
  void manyRanksOfAHostAreRight(String line) {
    assertRight(line, 1);
  }

  @ParameterizedTest
  @ValueSource(strings = {"-t 2 -d bfloat16", "--processes 2 --compare quantised=int8:32 -m 2"})
  void quantisedSumsAreMeasuredBeside(String line) {
    String compare = line.contains("--compare") ? "" : " --compare quantised";
    everythingIsRight("all_reduce,reduce_scatter --explain -b 4K -e 4K " + line + compare);
    assertTrue(out.toString().contains("quantised time / our time"), out::toString);
    assertTrue(out.toString().contains("bytes from each rank"), out::toString);
  }

  @Test
  void resultsAreWritten(@TempDir Path folder) throws IOException {
    Path json = folder.resolve("out.json");
    Path html = folder.resolve("out.html");
    int status = perf("all_gather -t 2 -e 64K --explain --json " + json + " --html " + html);
    assertEquals(0, status, () -> out + "" + err);
    assertTrue(Files.readString(json).contains("\"collective\" : \"all_gather\""));
    assertTrue(Files.readString(html).contains("\"collective\" : \"all_gather\""));
    assertTrue(out.toString().contains("#     chosen: "), out::toString);
  }

  @Test
  void processesHaveNvlsWhereItIsNamed(@TempDir Path folder) throws IOException {
    Path json = folder.resolve("out.json");
    int status = perf("all_reduce --processes 3 -b 100 -e 1M -f 32 --algo NVLS --json " + json);
    assertEquals(0, status, () -> out + "" + err);
    assertTrue(out.toString().contains("# Out of bounds values : 0 OK"), out::toString);
    assertTrue(Files.readString(json).contains("\"algorithm\" : \"NVLS\""));
    assertTrue(!Files.readString(json).contains("\"algorithm\" : \"Ring\""));
  }

  @Test
  void whatNcclAlgoTakesTheOptionTakes(@TempDir Path folder) throws IOException {
    Path json = folder.resolve("out.json");
    everythingIsRight(
        "all_reduce -t 2 -R 2 -b 64K -e 64K --algo ring;allreduce:direct_two_shot --json " + json);
    assertTrue(Files.readString(json).contains("\"algorithm\" : \"DirectTwoShot\""));
  }

  /** Each rank a process, with counts that are cut into uneven parts. */
  @Test
  void processesHaveEveryTypeAndOperatorOfNvls(@TempDir Path folder) throws IOException {
    Path json = folder.resolve("out.json");
    String collectives = "all_reduce,all_gather,reduce_scatter";
    assertRight(
        collectives + " --processes 3 -d all -o all -b 12696 -e 12696 --algo NVLS --json " + json,
        1);
    Matcher results =
        Pattern.compile(
                "\"collective\" : \"(\\w+)\".*?\"type\" : \"(\\w+)\".*?\"algorithm\" : \"(\\w+)\"",
                Pattern.DOTALL)
            .matcher(Files.readString(json));
    Set<String> byNvls = new TreeSet<>();
    while (results.find()) {
      if (results.group(3).equals("NVLS")) {
        byNvls.add(results.group(1) + " " + results.group(2));
      }
    }
    Set<String> expected = new TreeSet<>();
    for (DataType type : DataType.values()) {
      expected.add("all_gather " + type.label());
      if (Nvls.has(Operation.ALL_REDUCE, type, RedOp.SUM)) {
        expected.add("all_reduce " + type.label());
        expected.add("reduce_scatter " + type.label());
      }
    }
    assertEquals(expected, byNvls);
  }

  @Test
  void whatIsForGpusIsRefusedOnTheHost() {
    assertEquals(2, perf("all_reduce -t 2 -e 8 --device host --blocks"));
    assertTrue(err.toString().contains("--blocks: operations of the host"), err::toString);
    assertTrue(err.toString().contains("--device cuda"), err::toString);
    assertEquals(2, perf("all_reduce -t 2 -e 8 --device host --overlap"));
    assertTrue(err.toString().contains("--overlap: the host device has no multi"), err::toString);
  }

  @Test
  void anUnknownTransportIsAnError() {
    assertEquals(2, perf("all_reduce -t 2 -e 8 --transport pigeon"));
    assertTrue(err.toString().contains("pigeon"), err::toString);
    assertTrue(err.toString().contains("remedy: "), err::toString);
  }
}
