package org.nccl4j.it.perf.report;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

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
  /** This machine. */
  public static Machine local() {
    return new Machine(
        hostName(),
        field("/proc/cpuinfo", "model name", System.getProperty("os.arch")),
        Runtime.getRuntime().availableProcessors(),
        kilobytes(field("/proc/meminfo", "MemTotal", "0")) * 1024,
        System.getProperty("os.name") + " " + System.getProperty("os.version"),
        Runtime.version() + " " + System.getProperty("java.vendor"));
  }

  /** Bytes that programs can still have without swapping; 0 if unknown. */
  public static long availableMemory() {
    return kilobytes(field("/proc/meminfo", "MemAvailable", "0")) * 1024;
  }

  private static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }

  private static String field(String file, String name, String otherwise) {
    try (Stream<String> lines = Files.lines(Path.of(file))) {
      return lines
          .filter(line -> line.startsWith(name))
          .map(line -> line.substring(line.indexOf(':') + 1).strip())
          .findFirst()
          .orElse(otherwise);
    } catch (IOException e) {
      return otherwise;
    }
  }

  private static long kilobytes(String text) {
    String digits = text.replaceAll("\\D", "");
    return digits.isEmpty() ? 0 : Long.parseLong(digits);
  }
}
