package org.nccl4j.it.perf.report;

import java.nio.file.Path;
import org.nccl4j.device.os.ProcFile;
import org.nccl4j.device.os.ThisProcess;

/**
 * The machine of a measurement.
 *
 * @param host its name
 * @param processor its model
 * @param cores that this process may use
 * @param memoryBytes of the machine; 0 if unknown
 * @param os its kernel
 * @param java version and maker
 */
public record Machine(
    String host, String processor, int cores, long memoryBytes, String os, String java) {
  private static final Path PROCESSORS = Path.of("/proc/cpuinfo");

  /** This machine. */
  public static Machine local() {
    return new Machine(
        hostName(),
        ProcFile.field(PROCESSORS, "model name").orElse(System.getProperty("os.arch")),
        Runtime.getRuntime().availableProcessors(),
        ProcFile.bytes(ProcFile.MEMORY, "MemTotal"),
        System.getProperty("os.name") + " " + System.getProperty("os.version"),
        Runtime.version() + " " + System.getProperty("java.vendor"));
  }

  /** Bytes that programs can still have without swapping; 0 if unknown. */
  public static long availableMemory() {
    return ProcFile.bytes(ProcFile.MEMORY, "MemAvailable");
  }

  private static String hostName() {
    String name = ThisProcess.hostName();
    return name.isEmpty() ? "localhost" : name;
  }
}
