package org.nccl4j.device.cuda.driver;

import java.io.ByteArrayInputStream;
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
public record KernelBuild(List<Integer> architectures, int ptx, Optional<Absence> absence) {
  /**
   * The reason why there are no kernels.
   *
   * @param fact what is missing
   * @param remedy what to do
   */
  public record Absence(String fact, String remedy) {
    @Override
    public String toString() {
      return fact;
    }
  }

  /** Returns the build of the nccl-kernels that this nccl-device finds. */
  public static KernelBuild present() {
    byte[] file = KernelFiles.read("build.properties");
    if (file == null) {
      return without(
          "the artifact " + KernelFiles.ARTIFACT + " is not on the class path or module path",
          "add "
              + KernelFiles.ARTIFACT
              + " of nccl-device's version (nccl-api brings it, unless it is excluded; jlink takes"
              + " it by --add-modules org.nccl4j.kernels)");
    }
    try (InputStream own = KernelBuild.class.getResourceAsStream("kernels.properties")) {
      return of(properties(new ByteArrayInputStream(file)), properties(own));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Properties properties(InputStream in) throws IOException {
    Properties properties = new Properties();
    if (in != null) {
      properties.load(in);
    }
    return properties;
  }

  /**
   * Reads what two artifacts were built from.
   *
   * @param kernels nccl-kernels
   * @param device nccl-device, whose layouts are those of the kernels' sources
   */
  static KernelBuild of(Properties kernels, Properties device) {
    String sources = device.getProperty("sources", "");
    if (!sources.equals(kernels.getProperty("sources", ""))) {
      return without(
          KernelFiles.ARTIFACT + " and nccl-device are of different versions",
          "use one version of all artifacts of nccl4j: import org.nccl4j:nccl-bom");
    }
    String architectures = kernels.getProperty("architectures", "").trim();
    if (architectures.isEmpty()) {
      return without(
          kernels.getProperty("absence", KernelFiles.ARTIFACT + " has none"),
          "build where nvcc of CUDA 12.8 or newer is on the PATH (kernels of NVLS are made for"
              + " compute capability 10.0 too), or use a released jar");
    }
    return new KernelBuild(
        Arrays.stream(architectures.split("\\s+")).map(Integer::valueOf).toList(),
        Integer.parseInt(kernels.getProperty("ptx", "0").trim()),
        Optional.empty());
  }

  private static KernelBuild without(String fact, String remedy) {
    return new KernelBuild(List.of(), 0, Optional.of(new Absence(fact, remedy)));
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
