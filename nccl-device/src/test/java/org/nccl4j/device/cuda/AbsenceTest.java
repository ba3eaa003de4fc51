package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.InvalidUsageException;

/** Without a driver the answer is a sentence. In a process of its own, where nothing was loaded. */
class AbsenceTest {
  @Test
  void noDriverIsAReason() throws Exception {
    assumeFalse(
        Stream.of("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64")
            .anyMatch(directory -> Files.exists(Path.of(directory, "libcuda.so.1"))),
        "this machine has a driver");
    String path =
        System.getProperty("java.class.path")
            + ":"
            + System.getProperty("jdk.module.path", "")
            + ":"
            + Path.of(AbsenceTest.class.getProtectionDomain().getCodeSource().getLocation().toURI())
            + ":"
            + NativeBuild.source("target/test-classes").toAbsolutePath();
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                path,
                AbsenceTest.class.getName())
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    assertTrue(output.contains("there is no NVIDIA driver"), output);
    assertTrue(output.contains("there is no CUDA device here"), output);
  }

  /** Prints the reason, and the error of who asks for a device all the same. */
  public static void main(String[] arguments) {
    CudaDevices devices = CudaDevices.probe();
    System.out.println(devices.absence().orElse("present"));
    try {
      devices.device(0);
    } catch (InvalidUsageException e) {
      System.out.println(e.problem());
    }
  }
}
