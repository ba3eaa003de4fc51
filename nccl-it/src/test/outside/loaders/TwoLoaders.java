import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Runs a program twice at once, each with a class loader and an nccl4j of its own. */
public final class TwoLoaders {
  private TwoLoaders() {}

  /** The folders of classes and of jars. */
  public static void main(String[] arguments) throws Exception {
    List<Path> paths;
    try (Stream<Path> jars = Files.list(Path.of(arguments[1]))) {
      paths = Stream.concat(Stream.of(Path.of(arguments[0])), jars).toList();
    }
    URL[] urls = new URL[paths.size()];
    for (int i = 0; i < urls.length; i++) {
      urls[i] = paths.get(i).toUri().toURL();
    }
    List<CompletableFuture<Void>> both =
        IntStream.range(0, 2)
            .mapToObj(
                each -> CompletableFuture.runAsync(() -> run(urls), e -> new Thread(e).start()))
            .toList();
    both.forEach(CompletableFuture::join);
    System.out.println("two class loaders in one process: both sums are right");
  }

  private static void run(URL[] urls) {
    try (URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
      for (String program : List.of("FindKernels", "Sum")) {
        loader
            .loadClass("org.example.sum." + program)
            .getMethod("main", String[].class)
            .invoke(null, (Object) new String[0]);
      }
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }
}
