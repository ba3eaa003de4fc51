package org.nccl4j.api.init.probe;

import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Optional;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.device.os.ProcFile;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * The machine that a result is for, and the conditions under which it was measured.
 *
 * @param model of all GPUs, or of the processors
 * @param conditions as one line of text: of GPUs the driver, this library's version, settings,
 *     topology and transports
 */
record ProbeKey(String model, int nRanks, String conditions) {
  /** Counts changes of what a probe measures. */
  private static final int FORMAT = 4;

  private static final String UNFINISHED = ", unfinished";
  private static final Path MODULE = Path.of("/sys/module/nvidia/version");

  /**
   * A key.
   *
   * @param driver the version of CUDA that it supports
   * @param settings that change the times
   * @param transports between the ranks
   */
  static ProbeKey of(
      String model,
      int nRanks,
      String driver,
      String settings,
      Optional<CommTopology> topology,
      String transports) {
    ProbeKey begin = begin(model, nRanks, driver, settings);
    return new ProbeKey(
        model,
        nRanks,
        "%s%s over %s"
            .formatted(
                begin.conditions,
                topology.map(CommTopology::digest).map(Integer::toHexString).orElse("unknown"),
                transports));
  }

  /**
   * The begin of a key, as far as it is known without a communicator. Its text begins the key's.
   */
  static ProbeKey begin(String model, int nRanks, String driver, String settings) {
    return new ProbeKey(
        model,
        nRanks,
        "driver %s%s, nccl4j %s, settings %s, topology "
            .formatted(driver, module(), version(), settings));
  }

  /** The key of a result that is to be measured again before it counts. */
  ProbeKey inDoubt() {
    return new ProbeKey(model, nRanks, conditions + ", to be measured again");
  }

  /** The key of a result to which a later probe adds. */
  ProbeKey unfinished() {
    return new ProbeKey(model, nRanks, conditions + UNFINISHED);
  }

  /** True if the first line of a file is that of an unfinished result. */
  static boolean isUnfinished(String text) {
    return text.endsWith(UNFINISHED);
  }

  /**
   * The key of copies between two ranks on a machine's processors.
   *
   * @param processors the file that describes them, as /proc/cpuinfo
   * @param kernel the operating system's version
   * @param java the version of Java
   */
  static ProbeKey ofCopies(Path processors, String kernel, String java) {
    String model =
        ProcFile.field(processors, "model name").orElse(System.getProperty("os.arch"))
            + (" (family " + ProcFile.field(processors, "cpu family").orElse("unknown"))
            + (", model " + ProcFile.field(processors, "model").orElse("unknown") + ")");
    return new ProbeKey(model, 2, "kernel " + kernel + ", Java " + java + ", nccl4j " + version());
  }

  private static String version() {
    ModuleDescriptor own = ProbeKey.class.getModule().getDescriptor();
    String version = own == null ? "" : own.rawVersion().orElse("");
    return version.isEmpty() ? "development" : version;
  }

  /** The version of the driver's kernel module, where it can be read. */
  private static String module() {
    try {
      return " " + SettingFile.lines(MODULE).get(0).strip();
    } catch (IOException | RuntimeException e) {
      return "";
    }
  }

  /** The first line of the file. */
  String text() {
    return "# probe " + FORMAT + " of " + nRanks + " " + model + ", " + conditions;
  }

  String fileName() {
    return filePrefix() + HexFormat.of().toHexDigits(text().hashCode());
  }

  /** The begin of the names of files for these GPUs. */
  String filePrefix() {
    return nRanks + "-" + ProbeCache.word(model) + "-";
  }
}
