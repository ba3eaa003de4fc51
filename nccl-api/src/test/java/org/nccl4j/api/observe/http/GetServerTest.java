package org.nccl4j.api.observe.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** A server opens at an address that is free, and leaves no socket at one that is taken. */
class HttpServersTest {
  private static final int TRIES = 8;

  /** The sockets of this process, by number. */
  private static Set<String> sockets() throws IOException {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.map(HttpServersTest::target)
          .filter(target -> target.startsWith("socket:"))
          .collect(Collectors.toSet());
    }
  }

  private static String target(Path file) {
    try {
      return Files.readSymbolicLink(file).toString();
    } catch (NoSuchFileException e) {
      return "";
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void anAddressThatIsTakenLeavesNoSocket() throws IOException {
    InetAddress loopback = InetAddress.getLoopbackAddress();
    try (ServerSocket taken = new ServerSocket(0, 1, loopback)) {
      InetSocketAddress address = new InetSocketAddress(loopback, taken.getLocalPort());
      assertThrows(BindException.class, () -> HttpServers.open(address));
      Set<String> before = sockets();
      for (int i = 0; i < TRIES; i++) {
        assertThrows(BindException.class, () -> HttpServers.open(address));
      }
      Set<String> after = sockets();
      after.removeAll(before);
      assertEquals(Set.of(), after);
    }
  }

  @Test
  void aPortThatIsFreeIsListenedOn() throws IOException {
    InetAddress loopback = InetAddress.getLoopbackAddress();
    HttpServer server = HttpServers.open(new InetSocketAddress(loopback, 0));
    // A server that never started would keep its socket after stop.
    server.start();
    try {
      assertThrows(BindException.class, () -> HttpServers.open(server.getAddress()));
    } finally {
      server.stop(0);
    }
  }
}
