package org.nccl4j.device.shm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** This process's open files and mappings, from /proc. */
record ProcessState(List<String> openFiles, List<String> mappings) {
  static ProcessState now() {
    try (Stream<Path> fds = Files.list(Path.of("/proc/self/fd"))) {
      List<String> open = fds.map(ProcessState::target).sorted().toList();
      return new ProcessState(open, Files.readAllLines(Path.of("/proc/self/maps")));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String target(Path fd) {
    try {
      return Files.readSymbolicLink(fd).toString();
    } catch (IOException e) {
      return "closed";
    }
  }

  /** True if one mapping holds the whole range of addresses. */
  boolean maps(long address, long bytes) {
    return mappings.stream()
        .map(line -> line.split("[- ]"))
        .anyMatch(
            range ->
                Long.compareUnsigned(address, Long.parseUnsignedLong(range[0], 16)) >= 0
                    && Long.compareUnsigned(address + bytes, Long.parseUnsignedLong(range[1], 16))
                        <= 0);
  }

  /** The number of open files with a text in their name. */
  long openNaming(String text) {
    return openFiles.stream().filter(name -> name.contains(text)).count();
  }

  /** The number of mappings with a text in their name. */
  long mappingsNaming(String text) {
    return mappings.stream().filter(name -> name.contains(text)).count();
  }
}
