package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.cli.Main;
import org.nccl4j.it.net.RailMachine;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** The simulation of a cluster chooses as the ranks of a communicator on such machines. */
@Timeout(600)
class SimulatedRanksTest {
  private static final Pattern RUN =
      Pattern.compile(
          "runs AllReduce of (\\d+) bytes by (\\w+) (\\w+) on (\\d+) channels, predicted (\\S+) us");

  @TempDir static Path folder;

  @ParameterizedTest
  @CsvSource({"aabb, 2, ''", "aabb, 2, ^oneshot"})
  void ranksRunWhatTheSimulationSays(String hosts, int machines, String algorithms)
      throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Path machine =
        RailMachine.write(folder, List.of("0000:0a:00.0", "0000:0b:00.0"), List.of("lo", "eth0"));
    Map<String, String> settings =
        Map.of(
            "NCCL_TOPO_FILE", machine.toString(),
            "NCCL_NET", "Socket",
            "NCCL_ALGO", algorithms,
            "NCCL_DEBUG", "INFO",
            "NCCL_DEBUG_SUBSYS", "TUNING");
    Ran ran = FakeGpuProcess.in(folder).run(settings, FakeTreeRanks.class, hosts);
    Matcher run = RUN.matcher(ran.output());
    assertTrue(run.find(), ran.output());
    String simulated = simulated(machine, machines, algorithms);
    Matcher choice =
        Pattern.compile(
                "\"AllReduce\",\"bytes\":%s,\"algorithm\":\"%s\",\"protocol\":\"%s\",\"timeUs\":([^,]+),\"channels\":%s,"
                    .formatted(run.group(1), run.group(2), run.group(3), run.group(4)))
            .matcher(simulated);
    assertTrue(choice.find(), run.group() + "\n" + simulated);
    assertEquals(
        run.group(5), String.format(Locale.ROOT, "%.2f", Double.parseDouble(choice.group(1))));
  }

  private static String simulated(Path machine, int machines, String algorithms) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int status =
        Main.run(
            new PrintWriter(out),
            new PrintWriter(err),
            "topo",
            "simulate",
            "--json",
            "--nodes",
            Integer.toString(machines),
            "--file",
            machine.toString(),
            "--set",
            "NCCL_NET=Socket",
            "--set",
            "NCCL_P2P_DISABLE=1", // as the ranks have it
            "--set",
            "NCCL_ALGO=" + algorithms);
    assertEquals(0, status, err.toString());
    return out.toString();
  }
}
