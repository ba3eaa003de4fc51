package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.bootstrap.connection.Deadline;

/** Finds threads and sockets of the bootstrap that should be gone. */
public final class LeftBehind {
  private static final Path DESCRIPTORS = Path.of("/proc/self/fd");

  private static final List<String> TABLES = List.of("tcp", "tcp6");

  /** After the deadline of a root whose ranks do not come. */
  private static final Duration PATIENCE = Ranks.LONG.plusSeconds(120);

  /** The prefix of the bootstrap's threads' names. */
  private static final List<String> THREADS =
      List.of("nccl4j-bootstrap", "nccl4j-failure-of-rank-", "nccl4j-resolver");

  private LeftBehind() {}

  /**
   * Threads and sockets of tests that ran before in this JVM: a root without its ranks waits for
   * them until its deadline.
   */
  public record Earlier(List<Thread> threads, List<String> sockets) {
    /** Of tests before one that begins. */
    public static Earlier now() {
      return new Earlier(LeftBehind.threads(), LeftBehind.sockets());
    }

    /** Fails unless all other threads of the bootstrap end soon and their sockets are closed. */
    public void nothingElse() throws InterruptedException {
      Deadline deadline = Deadline.after(PATIENCE);
      for (Thread thread : LeftBehind.threads()) {
        if (!threads.contains(thread)) {
          thread.join(Math.max(1, deadline.leftNanos() / 1_000_000));
          assertTrue(!thread.isAlive(), () -> thread.getName() + " is still there");
        }
      }
      List<String> open = opened();
      while (!open.isEmpty() && deadline.leftNanos() > 0) {
        Thread.sleep(1);
        open = opened();
      }
      assertEquals(List.of(), open, "open sockets and selectors");
    }

    private List<String> opened() {
      List<String> open = new ArrayList<>(LeftBehind.sockets());
      open.removeAll(sockets);
      return open;
    }
  }

  /** Fails unless all of the bootstrap's threads end soon, and all its sockets are closed soon. */
  public static void nothing() throws InterruptedException {
    new Earlier(List.of(), List.of()).nothingElse();
  }

  static List<Thread> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> THREADS.stream().anyMatch(thread.getName()::startsWith))
        .toList();
  }

  /** TCP sockets and selectors; the virtual machine keeps other sockets for itself. */
  static List<String> sockets() {
    List<String> found = new ArrayList<>();
    try (Stream<Path> all = Files.list(DESCRIPTORS)) {
      Set<String> tcp = tcpSockets();
      for (Path each : all.toList()) {
        String target = target(each);
        if (tcp.contains(target) || target.contains("eventpoll")) {
          found.add(each + " " + target);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return found;
  }

  /** The ports that this process listens on. */
  static List<Integer> listeningPorts() {
    List<Integer> ports = new ArrayList<>();
    try (Stream<Path> all = Files.list(DESCRIPTORS)) {
      Set<String> ours = all.map(LeftBehind::target).collect(Collectors.toSet());
      for (String table : TABLES) {
        for (String line : Files.readAllLines(Path.of("/proc/self/net", table))) {
          String[] columns = line.trim().split("\\s+");
          if (columns[3].equals("0A") && ours.contains("socket:[" + columns[9] + "]")) {
            ports.add(Integer.parseInt(columns[1].substring(columns[1].lastIndexOf(':') + 1), 16));
          }
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return ports;
  }

  private static Set<String> tcpSockets() throws IOException {
    Set<String> names = new HashSet<>();
    for (String table : TABLES) {
      for (String line : Files.readAllLines(Path.of("/proc/self/net", table))) {
        names.add("socket:[" + line.trim().split("\\s+")[9] + "]");
      }
    }
    return names;
  }

  private static String target(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString();
    } catch (IOException e) {
      return "";
    }
  }
}
