package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.RankReport.TakeOver;
import org.nccl4j.api.spi.TakeOvers;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.Counts;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;

/** The page of {@code nccl top --web}, by HTTP and, where there is Chromium, in a browser. */
@Timeout(120)
class FrameServerTest {
  private static final String TRICK = "<img src=x onerror=document.title='no'>";

  @TempDir private Path directory;

  private static RankRates rank(int rank, String state) {
    return new RankRates(
        rank,
        new ProcessReport("h", 41 + rank, "S"),
        new Counts(5, 1, 2, 0.5),
        5,
        1,
        2,
        0.5,
        1 - rank,
        "all_reduce",
        state,
        List.of(new LinkRates(1 - rank, "SHM", 100, 4 - rank), new LinkRates(-1, "several", 7, 1)),
        List.of(new TakeOver(1 - rank, new TakeOvers(2, 900, 64, "eth0"))));
  }

  private static Frame frame() {
    return new Frame(
        1000,
        1,
        List.of(
            new CommunicatorRates(
                TRICK,
                7,
                2,
                List.of(rank(0, "waits"), rank(1, "runs")),
                List.of(new Wait(0, 1, 0.9)))));
  }

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
    try (FrameServer server = FrameServer.open(0)) {
      assertEquals("{}", get(server.address() + "frame.json").body());
      server.show(frame());
      Answer json = get(server.address() + "frame.json");
      assertEquals("application/json", json.type());
      assertTrue(json.body().contains("\"waits\":[{\"rank\":0,\"for\":1,\"share\":0.9}]"));
      Answer page = get(server.address());
      assertEquals(200, page.status());
      assertTrue(page.type().startsWith("text/html"), page.type());
      for (String file : List.of("top.js", "top.css")) {
        assertTrue(page.body().contains(file));
        assertEquals(200, get(server.address() + file).status());
      }
      assertEquals(404, get(server.address() + "../Frame.class").status());
    }
  }

  @Test
  void aPortThatIsTakenIsNamed() {
    try (FrameServer server = FrameServer.open(0)) {
      int port = URI.create(server.address()).getPort();
      SystemErrorException e =
          assertThrows(SystemErrorException.class, () -> FrameServer.open(port));
      assertTrue(e.getMessage().contains("port " + port), e.getMessage());
      assertTrue(e.getMessage().contains("pass another port"), e.getMessage());
    }
  }

  /** The browser draws ranks, waits and the table, and takes names for text. */
  @Test
  void aBrowserDrawsTheFrame() throws Exception {
    Path browser =
        Stream.of("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
            .map(Path::of)
            .filter(Files::isExecutable)
            .findFirst()
            .orElse(null);
    Assumptions.assumeTrue(browser != null, "there is no Chromium");
    try (FrameServer server = FrameServer.open(0)) {
      server.show(frame());
      Path page = directory.resolve("page.html");
      Process process =
          new ProcessBuilder(
                  browser.toString(),
                  "--headless",
                  "--no-sandbox",
                  "--disable-gpu",
                  "--disable-background-networking",
                  "--disable-component-update",
                  "--disable-sync",
                  "--no-first-run",
                  "--user-data-dir=" + directory.resolve("profile"),
                  "--virtual-time-budget=2000",
                  "--dump-dom",
                  server.address())
              .redirectOutput(page.toFile())
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      try {
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the browser does not end");
      } finally {
        process.destroyForcibly();
      }
      String dom = Files.readString(page);
      assertTrue(dom.contains("<circle"), dom);
      assertTrue(dom.contains("class=\"high\""), dom);
      assertTrue(dom.contains("rank 0 waits for rank 1, 90 %"), dom);
      assertTrue(dom.contains("class=\"link high\""), dom);
      assertTrue(
          dom.contains(
              "rank 0 sends 4.00 GB/s to rank 1 by SHM\nrank 1 sends 3.00 GB/s to rank 0 by SHM"),
          dom);
      assertFalse(dom.contains("several"), dom);
      assertTrue(
          dom.contains(
              "rank 0: 2 paths to rank 1 replaced, the last 0 s ago by eth0, 64 bytes sent again"),
          dom);
      assertTrue(dom.contains("41 h"), dom);
      assertTrue(dom.contains("&lt;img src=x"), dom);
      assertTrue(dom.contains("<title>nccl top</title>"), dom);
    }
  }
}
