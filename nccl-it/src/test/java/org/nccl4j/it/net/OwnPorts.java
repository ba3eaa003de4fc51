package org.nccl4j.it.net;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/** The TCP ports that this process listens on. */
public final class OwnPorts {
  private OwnPorts() {}

  /** Those of now. */
  public static Set<Integer> listening() throws IOException {
    Set<String> own = new HashSet<>();
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
      files.forEach(file -> own.add(target(file)));
    }
    Set<Integer> ports = new HashSet<>();
    for (String table : List.of("tcp", "tcp6")) {
      for (String line : Files.readAllLines(Path.of("/proc/self/net", table))) {
        String[] words = line.trim().split("\\s+");
        if (words.length > 9
            && words[3].equals("0A")
            && own.contains("socket:[%s]".formatted(words[9]))) {
          ports.add(Integer.parseInt(words[1].substring(words[1].lastIndexOf(':') + 1), 16));
        }
      }
    }
    return ports;
  }

  private static String target(Path file) {
    try {
      return Files.readSymbolicLink(file).toString();
    } catch (IOException e) {
      return "closed meanwhile";
    }
  }
}
