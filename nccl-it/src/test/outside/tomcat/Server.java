import java.lang.ref.WeakReference;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** Deploys a web application ten times, uses it, and waits until the one before is unloaded. */
public final class Server {
  private static final int DEPLOYMENTS = 10;
  private static final long MOST_NANOS = 60_000_000_000L;

  private Server() {}

  /** The web application's folder. */
  public static void main(String[] arguments) throws Exception {
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir("base");
    tomcat.setPort(0);
    tomcat.getConnector();
    tomcat.start();
    HttpClient client = HttpClient.newHttpClient();
    WeakReference<ClassLoader> before = new WeakReference<>(null);
    for (int time = 0; time < DEPLOYMENTS; time++) {
      Context web = tomcat.addWebapp("/web" + time, Path.of(arguments[0]).toRealPath().toString());
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
    }
    long libraries = libraries();
    if (libraries > 1) {
      throw new AssertionError(libraries + " copies of jffi's library are still mapped");
    }
    System.out.println(
        DEPLOYMENTS + " deployments of a web application: each left no class, thread or library");
    System.exit(0);
  }

  /** Of the web application before the last: the JDK keeps a class of the last one. */
  private static void await(WeakReference<ClassLoader> gone) throws InterruptedException {
    long end = System.nanoTime() + MOST_NANOS;
    while (gone.get() != null || !threads().isEmpty()) {
      if (System.nanoTime() > end) {
        throw new AssertionError(gone.get() + " is still there, or threads are: " + threads());
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

  private static long libraries() throws Exception {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains("jffi") && line.contains("r-xp")).count();
    }
  }
}
