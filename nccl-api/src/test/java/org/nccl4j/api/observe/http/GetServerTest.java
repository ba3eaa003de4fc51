package org.nccl4j.api.observe.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.support.Patience;

/** The server opens only at a free address, and answers only those that it is for. */
class GetServerTest {
  private static final int TRIES = 8;

  /** The sockets of this process, by number. */
  private static Set<String> sockets() throws IOException {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.map(GetServerTest::target)
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

  private static GetServer open(InetSocketAddress address) throws IOException {
    return GetServer.open(
        address,
        "test-http",
        exchange -> GetServer.send(exchange, 200, "text/plain", new byte[] {'x'}));
  }

  private static GetServer open() throws IOException {
    return open(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
  }

  @Test
  void anAddressThatIsTakenLeavesNoSocket() throws IOException {
    InetAddress loopback = InetAddress.getLoopbackAddress();
    try (ServerSocket taken = new ServerSocket(0, 1, loopback)) {
      InetSocketAddress address = new InetSocketAddress(loopback, taken.getLocalPort());
      assertThrows(BindException.class, () -> open(address));
      Set<String> before = sockets();
      for (int i = 0; i < TRIES; i++) {
        assertThrows(BindException.class, () -> open(address));
      }
      Set<String> after = sockets();
      after.removeAll(before);
      // One each if they stay; other threads of this process may open some.
      assertTrue(after.size() < TRIES, after.toString());
    }
  }

  @Test
  void aPortThatIsFreeIsListenedOn() throws IOException {
    try (GetServer server = open()) {
      assertThrows(BindException.class, () -> open(server.address()));
    }
  }

  /** The first line of what the server answers. */
  private static String answer(GetServer server, String request) throws IOException {
    try (Socket socket = new Socket()) {
      socket.connect(server.address());
      socket.setSoTimeout(60_000);
      socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
      return new BufferedReader(
              new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII))
          .readLine();
    }
  }

  private static String get(String host) {
    return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  }

  /** A page of another site can have its name mean the loopback address. */
  @Test
  void aRequestForAnotherHostIsRefused() throws IOException {
    try (GetServer server = open()) {
      int port = server.address().getPort();
      for (String host : List.of("127.0.0.1", "localhost", "[::1]")) {
        assertEquals("HTTP/1.1 200 OK", answer(server, get(host)));
        assertEquals("HTTP/1.1 200 OK", answer(server, get(host + ":" + port)));
      }
      for (String host : List.of("evil.example", "evil.example:" + port, "127.0.0.1.evil:1", "")) {
        assertEquals("HTTP/1.1 403 Forbidden", answer(server, get(host)), host);
      }
      assertEquals(
          "HTTP/1.1 405 Method Not Allowed",
          answer(server, get("localhost").replace("GET", "PUT")));
    }
  }

  @Test
  void aClientThatStopsInARequestDoesNotStopOthers() throws IOException {
    try (GetServer server = open();
        Socket stopped = new Socket()) {
      stopped.connect(server.address());
      stopped.getOutputStream().write("GET / HTTP/1.1\r\n".getBytes(StandardCharsets.US_ASCII));
      assertEquals("HTTP/1.1 200 OK", answer(server, get("localhost")));
    }
  }

  /** Each of these has one of the server's threads, until it is cut off. */
  @Test
  void manyClientsThatStopInARequestDoNotStopOthers() throws IOException {
    List<Socket> stopped = new ArrayList<>();
    try (GetServer server =
        GetServer.open(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
            "test-http",
            exchange -> GetServer.send(exchange, 200, "text/plain", new byte[] {'x'}),
            Duration.ofSeconds(2))) {
      for (int i = 0; i < 2 * TRIES; i++) {
        Socket socket = new Socket();
        stopped.add(socket);
        socket.connect(server.address());
        socket.setSoTimeout(60_000);
        socket.getOutputStream().write('G');
      }
      assertEquals("HTTP/1.1 200 OK", answer(server, get("localhost")));
      for (Socket socket : stopped) {
        assertEquals(-1, socket.getInputStream().read());
      }
    } finally {
      for (Socket socket : stopped) {
        socket.close();
      }
    }
  }

  /** Between a request and its answer a handler queries all ranks, which takes its time. */
  @Test
  void onlyWaitsForClientsAreInterrupted() {
    ClientLimits limits = new ClientLimits(Duration.ofMillis(1), "test-limit");
    try {
      limits.run(
          () -> {
            for (int wait = 0; wait < TRIES; wait++) {
              Duration most = Duration.ofMinutes(1);
              assertTrue(Patience.until(Thread.currentThread()::isInterrupted, most));
              ClientLimits.end();
              assertFalse(Thread.currentThread().isInterrupted());
              ClientLimits.begin();
            }
          });
      assertFalse(Thread.currentThread().isInterrupted());
    } finally {
      limits.close();
    }
  }
}
