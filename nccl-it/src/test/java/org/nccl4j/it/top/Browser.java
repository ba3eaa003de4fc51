package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.WebSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * A Chromium without a window and one page in it, driven by the DevTools protocol. Every wait ends
 * after {@link #PATIENCE_SECONDS}. One thread.
 */
final class Browser {
  private static final long PATIENCE_SECONDS = 300;
  private static final Duration LOOK = Duration.ofMillis(20);

  private final Process process;
  private final Events events = new Events();
  private final AtomicInteger calls = new AtomicInteger();
  private WebSocket socket;

  /** Answers and events of the page. Called by threads of the HTTP client. */
  private static final class Events implements WebSocket.Listener {
    final Map<Integer, CompletableFuture<Map<?, ?>>> answers = new ConcurrentHashMap<>();
    final List<String> errors = new CopyOnWriteArrayList<>();
    private final StringBuilder part = new StringBuilder();

    @Override
    public CompletionStage<?> onText(WebSocket from, CharSequence data, boolean last) {
      part.append(data);
      if (last) {
        take(part.toString());
        part.setLength(0);
      }
      from.request(1);
      return null;
    }

    private void take(String message) {
      Map<?, ?> object = (Map<?, ?>) parse(message);
      if (object.get("id") instanceof Number id) {
        answers.get(id.intValue()).complete(object);
      } else if (isError(String.valueOf(object.get("method")), message)) {
        errors.add(message);
      }
    }

    private static boolean isError(String method, String message) {
      return switch (method) {
        case "Runtime.exceptionThrown" -> true;
        case "Runtime.consoleAPICalled" -> message.contains("\"type\":\"error\"");
        case "Log.entryAdded" -> message.contains("\"level\":\"error\"");
        default -> false;
      };
    }
  }

  private Browser(Process process) {
    this.process = process;
  }

  /** The program; empty if there is none. */
  static Optional<Path> find() {
    return Stream.of("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
        .map(Path::of)
        .filter(Files::isExecutable)
        .findFirst();
  }

  /**
   * Starts a browser with an empty page.
   *
   * @param profile folder that it may fill
   */
  static Browser open(Path program, Path profile) throws Exception {
    Process process =
        new ProcessBuilder(
                program.toString(),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
                "--remote-debugging-port=0",
                "--user-data-dir=" + profile,
                "about:blank")
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    Browser browser = new Browser(process);
    try {
      browser.connect(profile.resolve("DevToolsActivePort"));
      return browser;
    } catch (Exception | AssertionError e) {
      browser.close();
      throw e;
    }
  }

  private void connect(Path portFile) throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    List<String> lines = List.of();
    while (lines.size() < 2) {
      assertTrue(process.isAlive(), "the browser has ended");
      assertTrue(System.nanoTime() < end, "the browser does not listen");
      Thread.sleep(LOOK.toMillis());
      lines = Files.exists(portFile) ? Files.readAllLines(portFile) : lines;
    }
    HttpClient http = HttpClient.newHttpClient();
    URI create = URI.create("http://127.0.0.1:" + lines.get(0) + "/json/new?about:blank");
    HttpRequest request =
        HttpRequest.newBuilder(create)
            .PUT(HttpRequest.BodyPublishers.noBody())
            .timeout(Duration.ofSeconds(PATIENCE_SECONDS))
            .build();
    Map<?, ?> page = (Map<?, ?>) parse(http.send(request, BodyHandlers.ofString()).body());
    socket =
        http.newWebSocketBuilder()
            .buildAsync(URI.create(String.valueOf(page.get("webSocketDebuggerUrl"))), events)
            .get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    call("Runtime.enable", "{}");
    call("Log.enable", "{}");
    call("Page.enable", "{}");
  }

  /** Calls a method of the protocol; returns its answer. */
  Map<?, ?> call(String method, String parameters) throws Exception {
    int id = calls.incrementAndGet();
    CompletableFuture<Map<?, ?>> answer = new CompletableFuture<>();
    events.answers.put(id, answer);
    socket
        .sendText(
            "{\"id\":%d,\"method\":\"%s\",\"params\":%s}".formatted(id, method, parameters), true)
        .get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    Map<?, ?> object = answer.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    assertTrue(object.containsKey("result"), () -> method + " fails: " + object);
    return (Map<?, ?>) object.get("result");
  }

  /** Goes to an address. */
  void go(String address) throws Exception {
    call("Page.navigate", "{\"url\":\"" + address + "\"}");
    await("location.href === '" + address + "' && document.readyState === 'complete'");
  }

  /** The value of an expression, as text. */
  String evaluate(String expression) throws Exception {
    String quoted = new String(JsonStringEncoder.getInstance().quoteAsString(expression));
    Map<?, ?> answer =
        call(
            "Runtime.evaluate",
            "{\"expression\":\"%s\",\"returnByValue\":true,\"awaitPromise\":true}"
                .formatted(quoted));
    assertTrue(!answer.containsKey("exceptionDetails"), () -> expression + ": " + answer);
    return String.valueOf(((Map<?, ?>) answer.get("result")).get("value"));
  }

  /** Waits until an expression is true. */
  void await(String expression) throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    while (!evaluate("!!(" + expression + ")").equals("true")) {
      assertTrue(
          System.nanoTime() < end, () -> expression + " is never true; errors: " + events.errors);
      Thread.sleep(LOOK.toMillis());
    }
  }

  /** Presses and releases a key. */
  void press(String key) throws Exception {
    for (String type : List.of("keyDown", "keyUp")) {
      call(
          "Input.dispatchKeyEvent",
          "{\"type\":\"%s\",\"key\":\"%s\",\"code\":\"%s\",\"windowsVirtualKeyCode\":9}"
              .formatted(type, key, key));
    }
  }

  /** Sets the size of the page in pixels. */
  void resize(int width, int height) throws Exception {
    call(
        "Emulation.setDeviceMetricsOverride",
        "{\"width\":%d,\"height\":%d,\"deviceScaleFactor\":1,\"mobile\":false}"
            .formatted(width, height));
  }

  /** Errors of the page and its scripts so far. */
  List<String> errors() {
    return List.copyOf(events.errors);
  }

  private static Object parse(String json) {
    try (JsonParser parser = new JsonFactory().createParser(json)) {
      parser.nextToken();
      return value(parser);
    } catch (IOException e) {
      throw new UncheckedIOException(json, e);
    }
  }

  private static Object value(JsonParser parser) throws IOException {
    switch (parser.currentToken()) {
      case START_OBJECT -> {
        Map<String, Object> object = new LinkedHashMap<>();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
          String name = parser.currentName();
          parser.nextToken();
          object.put(name, value(parser));
        }
        return object;
      }
      case START_ARRAY -> {
        List<Object> array = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
          array.add(value(parser));
        }
        return array;
      }
      case VALUE_NUMBER_INT -> {
        return parser.getLongValue();
      }
      default -> {
        return parser.getText();
      }
    }
  }

  /** Ends it, and its children. */
  void close() throws Exception {
    if (socket != null) {
      socket.abort();
    }
    // Its children write into its folder until they have ended.
    List<ProcessHandle> children = process.descendants().toList();
    process.destroyForcibly();
    children.forEach(ProcessHandle::destroyForcibly);
    assertTrue(process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS), "the browser does not end");
    for (ProcessHandle child : children) {
      child.onExit().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    }
  }
}
