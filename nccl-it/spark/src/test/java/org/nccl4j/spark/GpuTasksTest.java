package org.nccl4j.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.cuda.CudaDevice;

/** Tasks with addresses of GPUs, on the fake driver, which runs no kernels. */
@Timeout(600)
class GpuTasksTest {
  private static final Path BUILD = Path.of("..", "..", "nccl-device/src/test/c/build-fake.sh");

  @TempDir private Path folder;

  @Test
  void eachTaskWorksOnTheGpuOfItsAddress() throws Exception {
    String output = run("1", "0");
    assertTrue(output.contains("rank 0 on 0000:0b:00.0"), output);
    assertTrue(output.contains("rank 1 on 0000:0a:00.0"), output);
    // The contexts of both GPUs launched a kernel.
    String calls = Files.readString(folder.resolve("calls"));
    Matcher launch = Pattern.compile("cuLaunchKernelEx\\(").matcher(calls);
    assertTrue(launch.results().count() >= 2, calls);
    TreeSet<String> contexts = new TreeSet<>();
    Pattern.compile("cuDevicePrimaryCtxRetain\\((\\d)\\)")
        .matcher(calls)
        .results()
        .forEach(made -> contexts.add(made.group(1)));
    assertEquals(List.of("0", "1"), List.copyOf(contexts));
  }

  @Test
  void addressesMayBePciAddresses() throws Exception {
    String output = run("0000:0A:00.0", "0000:0b:00.0");
    assertTrue(output.contains("rank 0 on 0000:0a:00.0"), output);
    assertTrue(output.contains("rank 1 on 0000:0b:00.0"), output);
  }

  @Test
  void anAddressBeyondTheGpusIsNamed() throws Exception {
    String output = run("0", "2");
    assertTrue(
        output.contains(
            "task 1 of stage 7.0 has the address 2 of the resource \"gpu\": there is no CUDA device"
                + " 2: this process sees 2"),
        output);
  }

  @Test
  void anUnknownAddressIsNamed() throws Exception {
    String output = run("0", "0000:ff:00.0");
    assertTrue(output.contains("no GPU of this process is 0000:ff:00.0; it sees"), output);
  }

  /** As where two workers of a host offer the same GPUs, or spark.task.resource.gpu.amount=0.5. */
  @Test
  void oneGpuForTwoTasksIsRefused() throws Exception {
    String output = run("0", "0");
    assertTrue(output.contains("both use GPU 0000:0a:00.0"), output);
  }

  private String run(String... addresses) throws Exception {
    int built =
        new ProcessBuilder(BUILD.toString(), folder.toString()).inheritIO().start().waitFor();
    assumeTrue(built != 77, "the fake driver cannot be built");
    assertEquals(0, built);
    ProcessBuilder builder =
        new ProcessBuilder(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            System.getProperty("java.class.path"),
            Program.class.getName());
    builder.command().addAll(List.of(addresses));
    builder.environment().keySet().removeIf(name -> name.startsWith("NCCL"));
    builder.environment().put("LD_LIBRARY_PATH", folder.toString());
    builder.environment().put("FAKECUDA_RECORD", folder.resolve("calls").toString());
    Process process = builder.redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    return output;
  }

  /** A stage of tasks with the addresses that are its arguments. */
  static final class Program {
    private Program() {}

    /** Prints each rank's GPU and sum, or its error. On the fake driver the sum is not right. */
    public static void main(String[] addresses) throws Exception {
      RankOptions options =
          RankOptions.gpu()
              .withConfig(CommunicatorConfig.defaults().with("NCCL_SOCKET_IFNAME", "lo"));
      MemoryStage stage =
          new MemoryStage(addresses.length, task -> Map.of("gpu", List.of(addresses[task])));
      List<Object> ends =
          stage.run(
              task -> {
                BarrierRank rank = BarrierRank.join(task, options);
                int sum = Sums.sum(rank, 1 << rank.rank());
                return "rank %d on %s has the sum %d"
                    .formatted(rank.rank(), ((CudaDevice) rank.device()).id(), sum);
              });
      ends.forEach(System.out::println);
    }
  }
}
