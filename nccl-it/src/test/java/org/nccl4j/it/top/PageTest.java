package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.Writer;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.observe.JobReport.UnreachedRoot;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.it.cli.Main;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.LinkRates;

/** The page of {@code nccl top --web} in a real browser, where there is one. */
@Timeout(600)
class PageTest {
  private static final String HOST = RankReport.HOST;
  private static final String GPU_LINK = "DEV/0-12000|PCI/0-10000";

  @TempDir private static Path profile;

  private static Browser browser;

  private final FrameServer server =
      FrameServer.open(
          0,
          new TrafficMap(
              host ->
                  host.equals("gpus")
                      ? Optional.of(FrameSamples.machine("dgx-h100"))
                      : Optional.empty()),
          process -> true);

  @BeforeAll
  static void start() throws Exception {
    Optional<Path> program = Browser.find();
    Assumptions.assumeTrue(program.isPresent(), "there is no Chromium or Chrome in /usr/bin");
    browser = Browser.open(program.get(), profile);
  }

  @AfterAll
  static void end() throws Exception {
    if (browser != null) {
      browser.close();
    }
  }

  @AfterEach
  void nothingIsWrong() throws Exception {
    assertEquals(List.of(), browser.errors());
    browser.go("about:blank");
    server.close();
  }

  /** Two ranks on GPUs of one host, and two processes on another that share memory. */
  private static Frame hosts(long millis, double network, double shared) {
    return FrameSamples.frame(
        millis,
        FrameSamples.rank(
            0, "gpus", "0000:12:00.0", new LinkRates(2, "NET", "IB/mlx5_0", 9, network, 0)),
        FrameSamples.rank(1, "gpus", "0000:2a:00.0"),
        FrameSamples.rank(
            2,
            "plain",
            HOST,
            new LinkRates(0, "NET", "Socket/eth0", 0, 0, network),
            new LinkRates(3, "SHM", "", 9, shared, 0)),
        FrameSamples.rank(3, "plain", HOST));
  }

  private static String link(String id) {
    return "document.querySelector('g.link[data-id=\"" + id + "\"]')";
  }

  private static String look(String id, String property) {
    return "getComputedStyle(" + link(id) + ".querySelector('line'))." + property;
  }

  private void show(Frame frame) throws Exception {
    server.show(frame);
    browser.await("typeof lastMillis !== 'undefined' && lastMillis === " + frame.millis());
  }

  @Test
  void theMachinesHaveTheirNodesAndLinks() throws Exception {
    browser.go(server.address());
    show(hosts(1, 0, 0));
    assertEquals("2", browser.evaluate("document.querySelectorAll('svg.machine').length"));
    String counts =
        "[...document.querySelectorAll('figure.host')].map(f => ['dev','nvs','nic','cpu','pci',"
            + "'process','memory','network'].map(k => f.querySelectorAll('g.node.' + k).length)"
            + ".join()).join(';')";
    assertEquals("8,1,8,2,8,0,0,1;0,0,1,0,0,2,1,1", browser.evaluate(counts));
    for (String id :
        List.of(
            GPU_LINK,
            "NIC/0-15000|PCI/0-10000",
            "NIC/0-15000|network",
            "memory|process/43",
            "memory|nic/eth0",
            "network|nic/eth0")) {
      assertEquals("true", browser.evaluate(link(id) + " !== null"), id);
    }
    assertTrue(
        browser.evaluate("document.querySelector('ul.notes').innerText").contains("are estimated"));
  }

  @Test
  void coloursWidthsAndFiguresFollowTheTraffic() throws Exception {
    browser.go(server.address());
    show(hosts(1, 0, 0));
    assertEquals("link t0", browser.evaluate(link(GPU_LINK) + ".getAttribute('class')"));
    String idle = browser.evaluate(look(GPU_LINK, "stroke"));
    assertEquals("1px", browser.evaluate(look(GPU_LINK, "strokeWidth")));
    show(hosts(2, 40, 0.5));
    assertEquals("link t4", browser.evaluate(link(GPU_LINK) + ".getAttribute('class')"));
    assertEquals("link t2", browser.evaluate(link("memory|process/44") + ".getAttribute('class')"));
    String busy = browser.evaluate(look(GPU_LINK, "stroke"));
    assertNotEquals(idle, busy);
    assertNotEquals(busy, browser.evaluate(look("memory|process/44", "stroke")));
    assertEquals("6px", browser.evaluate(look(GPU_LINK, "strokeWidth")));
    // Without colour: the figure at the link, its tooltip and the table.
    String tag = "document.querySelector('g.tag[data-id=\"" + GPU_LINK + "\"]').textContent";
    assertEquals("40.00", browser.evaluate(tag));
    String title = browser.evaluate(link(GPU_LINK) + ".querySelector('title').textContent");
    assertTrue(title.contains("rank 0 sends 40.0 GB/s to rank 2 by NET/IB/mlx5_0"), title);
    assertTrue(title.contains("of 48.00 GB/s"), title);
    assertEquals(
        "3 of 41 links have traffic",
        browser.evaluate("document.querySelector('figure.host summary').textContent"));
    show(hosts(3, 0, 0.5));
    assertEquals(idle, browser.evaluate(look(GPU_LINK, "stroke")));
  }

  /**
   * Tab reaches the links, the page says what it knows of them, and a new frame keeps the focus.
   */
  @Test
  void linksAreReadByKeyboard() throws Exception {
    browser.go(server.address());
    show(hosts(1, 2, 2));
    String focused = "document.activeElement.closest('g.link')";
    for (int tabs = 0;
        tabs < 100 && browser.evaluate(focused + " === null").equals("true");
        tabs++) {
      browser.press("Tab");
    }
    String id = browser.evaluate(focused + ".dataset.id");
    show(hosts(2, 2, 2));
    assertEquals(id, browser.evaluate(focused + ".dataset.id"));
    String selected = browser.evaluate("document.querySelector('.selected').textContent");
    assertEquals(selected, browser.evaluate(focused + ".getAttribute('aria-label')"));
    assertTrue(selected.contains("GB/s"), selected);
  }

  @Test
  void theGraphOfAGoneHostGoes() throws Exception {
    browser.go(server.address());
    show(hosts(1, 2, 2));
    show(FrameSamples.frame(2, FrameSamples.rank(2, "plain", HOST)));
    assertEquals(
        "host plain",
        browser.evaluate(
            "[...document.querySelectorAll('figcaption')].map(e => e.textContent).join()"));
  }

  @Test
  void rootsWithoutAnAnswerAreNamedAboveTheCommunicators() throws Exception {
    browser.go(server.address());
    show(
        FrameSamples.frame(1, FrameSamples.rank(0, "plain", HOST))
            .without(List.of(new UnreachedRoot("10.0.0.7:4000", "it <is> gone"))));
    String first = "document.querySelector('#communicators').firstElementChild.textContent";
    assertEquals("no answer of the root at 10.0.0.7:4000: it <is> gone", browser.evaluate(first));
    show(FrameSamples.frame(2, FrameSamples.rank(0, "plain", HOST)));
    assertEquals("SECTION", browser.evaluate(first.replace("textContent", "tagName")));
  }

  /** The command on ranks of this process: their links have traffic while they work, then none. */
  @Test
  void theCommandShowsRanksThatWork() throws Exception {
    AtomicBoolean ends = new AtomicBoolean();
    StringBuffer said = new StringBuffer();
    PrintWriter out = new PrintWriter(endingWriter(ends, said), true);
    String pid = Long.toString(ProcessHandle.current().pid());
    Thread command =
        new Thread(() -> Main.run(out, out, "top", "--web", "0", "-i", "0.2", pid), "top");
    WorkingRanks ranks = new WorkingRanks("seen");
    try {
      command.start();
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(300);
      while (!said.toString().contains("\n") && System.nanoTime() < end) {
        Thread.onSpinWait();
      }
      String address = said.toString().replace("open ", "").strip();
      browser.go(address);
      String process = "memory|process/" + pid;
      try {
        browser.await(
            "%s && !%s.classList.contains('t0') && %s.getAttribute('aria-label').includes('by P2P')"
                .formatted(link(process), link(process), link(process)));
      } catch (AssertionError e) {
        String shown = browser.evaluate("document.body.innerText");
        throw new AssertionError("the command said " + said + ", the page shows " + shown, e);
      }
      ranks.stop();
      browser.await(link(process) + ".classList.contains('t0')");
    } finally {
      browser.go("about:blank");
      ends.set(true);
      command.join(TimeUnit.SECONDS.toMillis(60));
      ranks.close();
    }
    assertFalse(command.isAlive(), "the command goes on");
  }

  /** A writer whose reader goes. */
  private static Writer endingWriter(AtomicBoolean ends, StringBuffer said) {
    return new Writer() {
      @Override
      public void write(char[] letters, int at, int count) {
        said.append(letters, at, count);
      }

      @Override
      public void flush() throws IOException {
        if (ends.get()) {
          throw new IOException("gone");
        }
      }

      @Override
      public void close() {
        // nothing is open
      }
    };
  }

  /** Nothing but pictures and tables, which scroll by themselves, is wider than a telephone. */
  @Test
  void narrowWidthsAndDarkColours() throws Exception {
    browser.go(server.address());
    show(hosts(1, 2, 2));
    String wide =
        browser.evaluate("document.querySelector('svg.machine').getBoundingClientRect().width");
    String light = browser.evaluate(look(GPU_LINK, "stroke"));
    for (int width : new int[] {1600, 768, 320}) {
      browser.resize(width, 640);
      browser.await("document.documentElement.clientWidth <= " + width);
      assertEquals(
          "true",
          browser.evaluate("document.documentElement.scrollWidth <= " + width),
          () -> "the page is wider than " + width);
    }
    assertNotEquals("0", wide);
    browser.call(
        "Emulation.setEmulatedMedia",
        "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"dark\"}]}");
    browser.await("matchMedia('(prefers-color-scheme: dark)').matches");
    assertNotEquals(light, browser.evaluate(look(GPU_LINK, "stroke")));
    browser.call("Emulation.setEmulatedMedia", "{\"features\":[]}");
    browser.call("Emulation.clearDeviceMetricsOverride", "{}");
  }

  private static CommunicatorRates named(long id) {
    Frame frame = FrameSamples.frame(0, FrameSamples.rank(0, "h", HOST));
    CommunicatorRates any = frame.communicators().get(0);
    return new CommunicatorRates("same", id, any.nRanks(), any.ranks(), any.waits(), any.speeds());
  }

  /** A communicator that is closed has none, also if another of its name comes later. */
  @Test
  void communicatorsOfOneNameHaveCurvesOfTheirOwn() throws Exception {
    browser.go(server.address());
    show(new Frame(1, 1, List.of(named(1), named(-2)), List.of()));
    show(new Frame(2, 1, List.of(named(1), named(-2)), List.of()));
    show(new Frame(3, 1, List.of(named(1)), List.of()));
    show(new Frame(4, 1, List.of(named(1), named(-2)), List.of()));
    String frames =
        "[...document.querySelectorAll('svg.history title')]"
            + ".map(each => each.textContent.match(/last (\\d+) frames/)[1]).join()";
    assertEquals("4,1", browser.evaluate(frames));
  }

  /** The page draws ranks, waits and the table, names slow links, and takes names for text. */
  @Test
  void communicatorsAreDrawn() throws Exception {
    browser.go(server.address());
    show(FrameSamples.pair());
    String dom = browser.evaluate("document.documentElement.outerHTML");
    assertTrue(dom.contains("<circle"), dom);
    assertTrue(dom.contains("class=\"high\""), dom);
    assertTrue(dom.contains("rank 0 waits for rank 1, 90 %"), dom);
    assertTrue(dom.contains("class=\"link high\""), dom);
    assertTrue(
        dom.contains(
            "rank 0 sends 4.00 GB/s to rank 1 by SHM\nrank 1 sends 3.00 GB/s to rank 0 by SHM"),
        dom);
    assertTrue(
        dom.contains(
            "rank 0: 2 paths to rank 1 replaced, the last 0 s ago by eth0, 64 bytes sent again"),
        dom);
    assertTrue(
        dom.contains(
            "slow link: rank 0 -&gt; rank 1 (NET/Socket/eth0): 0.42 GB/s, others 2.30 GB/s (median of"
                + " 12), with data under way in 96 % of the last 8.0 s"),
        dom);
    assertTrue(dom.contains("41 h"), dom);
    assertTrue(dom.contains("&lt;img src=x"), dom);
    assertFalse(dom.contains("<img"), dom);
    assertEquals("nccl top", browser.evaluate("document.title"));
  }
}
