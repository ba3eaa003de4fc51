import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** Deploys a web application ten times, uses it, and waits until the one before is unloaded. */
public final class Server {
  private static final int DEPLOYMENTS = 10;
  private static final long MOST_NANOS = 60_000_000_000L;

  /** The JVM has loaded and compiled most of its own after so many deployments. */
  private static final int FIRST = 3;

  /** Less than two deployments' memory: each uses 32 MB. */
  private static final long MOST_GROWTH_KB = 48 << 10;

  private Server() {}

  /** The web application's folder. */
  public static void main(String[] arguments) {
    int status = 0;
    try {
      run(Path.of(arguments[0]).toRealPath());
    } catch (Exception | AssertionError e) {
      e.printStackTrace();
      status = 1;
    }
    System.exit(status); // else threads of Tomcat would keep the process
  }

  private static void run(Path folder) throws Exception {
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir("base");
    tomcat.setPort(0);
    tomcat.getConnector();
    tomcat.start();
    HttpClient client = HttpClient.newHttpClient();
    WeakReference<ClassLoader> before = new WeakReference<>(null);
    long first = 0;
    for (int time = 0; time < DEPLOYMENTS; time++) {
      Context web = tomcat.addWebapp("/web" + time, folder.toString());
      URI uri =
          URI.create(
              "http://localhost:%d/web%d/sum"
                  .formatted(tomcat.getConnector().getLocalPort(), time));
      String body =
          client.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString()).body();
      if (!body.equals("1000 elements right")) {
        throw new AssertionError(body);
      }
      WeakReference<ClassLoader> last = new WeakReference<>(web.getLoader().getClassLoader());
      web.stop();
      web.destroy();
      tomcat.getHost().removeChild(web);
      await(before);
      before = last;
      if (time == FIRST) {
        first = residentKb();
      }
    }
    long growth = residentKb() - first;
    if (growth > MOST_GROWTH_KB) {
      throw new AssertionError("%d kB more memory than after %d".formatted(growth, FIRST + 1));
    }
    long libraries = libraries();
    if (libraries > 1) {
      throw new AssertionError(libraries + " copies of jffi's library are still mapped");
    }
    System.out.println(
        DEPLOYMENTS
            + " deployments of a web application: each left no class, thread, library, file or"
            + " memory");
  }

  /** Of the web application before the last: the JDK keeps a class of the last one. */
  private static void await(WeakReference<ClassLoader> gone) throws Exception {
    long end = System.nanoTime() + MOST_NANOS;
    while (gone.get() != null || !threads().isEmpty() || !leftovers().isEmpty()) {
      if (System.nanoTime() > end) {
        throw new AssertionError(
            "still there: %s, threads %s, files %s".formatted(gone.get(), threads(), leftovers()));
      }
      System.gc();
      Thread.sleep(20);
    }
  }

  private static List<String> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith("nccl4j"))
        .toList();
  }

  /** Descriptors and mappings of shared memory, and files. */
  private static List<String> leftovers() throws Exception {
    List<String> found = new ArrayList<>();
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
      for (Path descriptor : descriptors.toList()) {
        try {
          found.add(Files.readSymbolicLink(descriptor).toString());
        } catch (IOException e) {
          continue; // closed meanwhile
        }
      }
    }
    found.addAll(Files.readAllLines(Path.of("/proc/self/maps")));
    found.removeIf(line -> !line.contains("/memfd:") && !line.contains("/dev/shm/"));
    try (Stream<Path> files = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
      files.forEach(file -> found.add(file.toString()));
    }
    return found;
  }

  /** The process's memory but for files: the heap is all there from the beginning. */
  private static long residentKb() throws IOException {
    return Files.readAllLines(Path.of("/proc/self/status")).stream()
        .filter(line -> line.startsWith("RssAnon:") || line.startsWith("RssShmem:"))
        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
        .sum();
  }

  private static long libraries() throws Exception {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains("jffi") && line.contains("r-xp")).count();
    }
  }
}
