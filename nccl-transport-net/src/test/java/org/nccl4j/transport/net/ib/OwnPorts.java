package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The TCP ports on which this process listens. Another may take a port as soon as it is closed. */
final class OwnPorts {
  private static final String LISTENS = "0A";

  private OwnPorts() {}

  /** True if this process listens on a port, at any address. */
  static boolean isOpen(int port) {
    String end = ":%04X".formatted(port);
    Set<String> inodes =
        Stream.concat(lines("tcp"), lines("tcp6"))
            .map(line -> line.strip().split("\\s+"))
            .filter(fields -> fields[1].endsWith(end) && fields[3].equals(LISTENS))
            .map(fields -> "socket:[" + fields[9] + "]")
            .collect(Collectors.toSet());
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
      return descriptors.toList().stream().anyMatch(each -> inodes.contains(target(each)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Stream<String> lines(String protocol) {
    Path file = Path.of("/proc/self/net", protocol);
    try {
      List<String> lines = Files.exists(file) ? Files.readAllLines(file) : List.of();
      return lines.stream().skip(1); // the names of the fields
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String target(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString();
    } catch (IOException closedMeanwhile) {
      return "";
    }
  }
}
