package org.nccl4j.it.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** What this process holds of the system. */
record ProcessFootprint(long openFiles, long mappings, long addressBytes) {
  private static final long PAGE = 4096;

  static ProcessFootprint now() {
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"));
        Stream<String> mappings = Files.lines(Path.of("/proc/self/maps"))) {
      String pages = Files.readString(Path.of("/proc/self/statm")).split(" ")[0];
      return new ProcessFootprint(files.count(), mappings.count(), Long.parseLong(pages) * PAGE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
