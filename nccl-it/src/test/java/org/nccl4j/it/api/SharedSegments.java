package org.nccl4j.it.api;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The mappings of each segment of shared memory that this process has at a time. Those of segments
 * that earlier tests have dropped may end at any time, so the number of all says little.
 */
public final class SharedSegments {
  private final Map<String, Long> mappings;

  private SharedSegments(Map<String, Long> mappings) {
    this.mappings = mappings;
  }

  /** Those of now. */
  public static SharedSegments now() throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return new SharedSegments(
          lines
              .filter(line -> line.contains("memfd:nccl4j"))
              .collect(Collectors.groupingBy(SharedSegments::segment, Collectors.counting())));
    }
  }

  /** Its device and inode. */
  private static String segment(String line) {
    String[] fields = line.split(" ");
    return fields[3] + " " + fields[4];
  }

  /** The number of all. */
  public long count() {
    return mappings.values().stream().mapToLong(Long::longValue).sum();
  }

  /** True if there is none. */
  public boolean isEmpty() {
    return mappings.isEmpty();
  }

  /** The mappings of segments that had none before, or fewer. */
  public SharedSegments since(SharedSegments before) {
    return new SharedSegments(
        mappings.entrySet().stream()
            .filter(each -> each.getValue() > before.mappings.getOrDefault(each.getKey(), 0L))
            .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue)));
  }

  @Override
  public String toString() {
    return "mappings of segments: " + mappings;
  }
}
