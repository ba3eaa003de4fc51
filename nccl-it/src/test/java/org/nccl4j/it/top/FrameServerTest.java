package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.SystemErrorException;

/** The page of {@code nccl top --web} and its data, by HTTP. */
class FrameServerTest {
  private record Answer(int status, String type, String body) {}

  private static Answer get(String address) throws IOException {
    HttpURLConnection connection = (HttpURLConnection) URI.create(address).toURL().openConnection();
    int status = connection.getResponseCode();
    try (var in = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
      assertEquals("default-src 'self'", connection.getHeaderField("Content-Security-Policy"));
      return new Answer(
          status,
          connection.getContentType(),
          new String(in.readAllBytes(), StandardCharsets.UTF_8));
    }
  }

  @Test
  void thePageItsFilesAndTheLastFrame() throws IOException {
    try (FrameServer server = FrameServer.open(0, FrameSamples.UNKNOWN, process -> true)) {
      assertEquals("{}", get(server.address() + "frame.json").body());
      assertEquals("[]", get(server.address() + "hosts.json").body());
      server.show(FrameSamples.pair());
      Answer json = get(server.address() + "frame.json");
      assertEquals("application/json", json.type());
      assertTrue(json.body().contains("\"waits\":[{\"rank\":0,\"for\":1,\"share\":0.9}]"));
      Answer hosts = get(server.address() + "hosts.json");
      assertEquals("application/json", hosts.type());
      assertTrue(hosts.body().startsWith("[{\"host\":\"h\",\"svg\":\"<svg"), hosts.body());
      Answer page = get(server.address());
      assertEquals(200, page.status());
      assertTrue(page.type().startsWith("text/html"), page.type());
      for (String file : List.of("top.js", "hosts.js", "top.css", "top.svg")) {
        assertTrue(page.body().contains(file));
        assertEquals(200, get(server.address() + file).status());
      }
      assertEquals(404, get(server.address() + "../Frame.class").status());
    }
  }

  /** The loopback address is ::1 with java.net.preferIPv6Addresses. */
  @Test
  void theAddressIsTheOneThatListens() throws IOException {
    byte[] loopback = new byte[16];
    loopback[15] = 1;
    assertEquals(
        "http://[0:0:0:0:0:0:0:1]:8080/",
        FrameServer.address(new InetSocketAddress(InetAddress.getByAddress(loopback), 8080)));
    assertEquals(
        "http://127.0.0.1:80/", FrameServer.address(new InetSocketAddress("127.0.0.1", 80)));
  }

  @Test
  void aPortThatIsTakenIsNamed() {
    try (FrameServer server = FrameServer.open(0, FrameSamples.UNKNOWN, process -> true)) {
      int port = URI.create(server.address()).getPort();
      SystemErrorException e =
          assertThrows(
              SystemErrorException.class,
              () -> FrameServer.open(port, FrameSamples.UNKNOWN, process -> true));
      assertTrue(e.getMessage().contains("port " + port), e.getMessage());
      assertTrue(e.getMessage().contains("pass another port"), e.getMessage());
    }
  }
}
