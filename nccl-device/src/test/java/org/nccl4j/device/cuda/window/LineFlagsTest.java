package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.DeviceHeaders;
import org.nccl4j.device.cuda.NativeBuild;

/** The flags of lines of users' kernels, by the header compiled for the host. */
@Timeout(600)
class LineFlagsTest {
  private static final String HEADER = "nccl4j_device.cuh";
  private static final String PROGRAM =
      """
      #include <stdio.h>
      #include <stdlib.h>
      #include "nccl4j_device.cuh"
      int main(int n, char** epochs) {
        for (int i = 1; i < n; i++) {
          nccl4jLineFlags flags = nccl4jFlagsOf(strtoull(epochs[i], NULL, 10));
          printf("%u %u\\n", flags.first, flags.second);
        }
      }
      """;

  @TempDir Path folder;

  /** An epoch uses a line again two epochs later. */
  @Test
  void eachEpochHasFlagsOfItsOwn() throws Exception {
    List<Long> epochs = new ArrayList<>();
    for (long around : new long[] {2, 1L << 31, 1L << 32, 1L << 33, 1L << 40}) {
      for (long epoch = around - 1; epoch <= around + 2; epoch++) {
        epochs.add(epoch);
      }
    }
    List<String> flags = flags(epochs);
    Set<String> all = new HashSet<>(flags);
    all.add("0 0"); // a line that was never written
    assertEquals(epochs.size() + 1, all.size(), flags.toString());
    for (int i = 2; i < epochs.size(); i++) {
      if (epochs.get(i) - epochs.get(i - 2) == 2) {
        for (int half = 0; half < 2; half++) {
          String before = flags.get(i - 2).split(" ")[half];
          assertNotEquals(before, flags.get(i).split(" ")[half], "epoch " + epochs.get(i));
        }
      }
    }
  }

  private List<String> flags(List<Long> epochs) throws Exception {
    try (InputStream header = DeviceHeaders.class.getResourceAsStream("include/" + HEADER)) {
      Files.copy(header, folder.resolve(HEADER));
    }
    Path source = folder.resolve("flags.cc");
    Files.writeString(source, PROGRAM);
    String program = folder.resolve("flags").toString();
    NativeBuild.nvcc("-x", "c++", "-std=c++17", "-o", program, source.toString());
    List<String> command = new ArrayList<>(List.of(program));
    epochs.forEach(epoch -> command.add(Long.toString(epoch)));
    Process process = new ProcessBuilder(command).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor());
    return output.lines().toList();
  }
}
