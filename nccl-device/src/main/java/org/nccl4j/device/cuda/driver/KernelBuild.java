package org.nccl4j.device.cuda.driver;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Collectors;

/**
 * The GPUs that the kernels of this build are for. Compute capabilities are times ten, as {@link
 * Gpu#computeCapability}.
 *
 * @param architectures compute capabilities that there is code for
 * @param ptx the compute capability of the PTX, which the driver compiles for newer GPUs; 0 for
 *     none
 * @param absence why there are no kernels; empty where there are
 */
public record KernelBuild(List<Integer> architectures, int ptx, Optional<String> absence) {
  /** Returns the build of this nccl-device. */
  public static KernelBuild present() {
    Properties build = new Properties();
    try (InputStream in =
        KernelBuild.class.getResourceAsStream("/org/nccl4j/device/cuda/kernels/build.properties")) {
      if (in != null) {
        build.load(in);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return of(build);
  }

  static KernelBuild of(Properties build) {
    String architectures = build.getProperty("architectures", "").trim();
    if (architectures.isEmpty()) {
      String why = build.getProperty("absence", "they are missing from the jar");
      return new KernelBuild(List.of(), 0, Optional.of(why));
    }
    return new KernelBuild(
        Arrays.stream(architectures.split("\\s+")).map(Integer::valueOf).toList(),
        Integer.parseInt(build.getProperty("ptx", "0").trim()),
        Optional.empty());
  }

  /** True if a GPU of a compute capability runs the kernels. */
  public boolean runsOn(int computeCapability) {
    return ptx > 0 && ptx <= computeCapability
        || architectures.stream()
            .anyMatch(built -> built / 10 == computeCapability / 10 && built <= computeCapability);
  }

  /** The compute capabilities, for people. */
  @Override
  public String toString() {
    if (absence.isPresent()) {
      return "no CUDA kernels: " + absence.get();
    }
    return "CUDA kernels for compute capability "
        + architectures.stream().map(KernelBuild::dotted).collect(Collectors.joining(", "))
        + (ptx > 0 ? ", and PTX for newer ones than " + dotted(ptx) : "");
  }

  private static String dotted(int computeCapability) {
    return computeCapability / 10 + "." + computeCapability % 10;
  }
}
