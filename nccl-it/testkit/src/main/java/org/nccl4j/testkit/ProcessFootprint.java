package org.nccl4j.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * The resources of this process.
 *
 * @param openFiles file descriptors
 * @param mappings mappings of files and of shared memory; those of private memory are left out,
 *     since the JVM's heap alone becomes more or fewer of them as it grows and shrinks
 * @param addressBytes the whole address space
 */
record ProcessFootprint(long openFiles, long mappings, long addressBytes) {
  private static final long PAGE = 4096;
  private static final long SETTLING_NANOS = 2_000_000_000L;

  /**
   * Measures the footprint after all earlier work has ended. The collector unmaps unreferenced
   * memory late, which would hide a leak in the meantime.
   */
  static ProcessFootprint settled() {
    long end = System.nanoTime() + SETTLING_NANOS;
    ProcessFootprint last = now();
    int alike = 0;
    while (alike < 2 && System.nanoTime() - end < 0) {
      System.gc();
      ProcessFootprint now = now();
      alike = now.equals(last) ? alike + 1 : 0;
      last = now;
    }
    return last;
  }

  /** A line reads: addresses, access, offset, device, inode, name. */
  private static boolean isOfFile(String mapping) {
    return !mapping.split(" +")[4].equals("0");
  }

  static ProcessFootprint now() {
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"));
        Stream<String> mappings = Files.lines(Path.of("/proc/self/maps"))) {
      String pages = Files.readString(Path.of("/proc/self/statm")).split(" ")[0];
      return new ProcessFootprint(
          files.count(),
          mappings.filter(ProcessFootprint::isOfFile).count(),
          Long.parseLong(pages) * PAGE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
