package org.nccl4j.it.loader;

import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** Threads, classes and native libraries that outlive {@link ChildFirstLoader}s. */
final class Leftovers {
  private static final long MOST_NANOS = 300_000_000_000L;
  private static final long PAUSE_NANOS = 20_000_000;

  private Leftovers() {}

  /** Waits until loaders are collected and no thread of this library is left. */
  static void assertCollected(List<WeakReference<ClassLoader>> loaders) {
    long end = System.nanoTime() + MOST_NANOS;
    while (isAny(loaders) || !threads().isEmpty()) {
      if (System.nanoTime() > end) {
        fail("left are " + (isAny(loaders) ? "a class loader and " : "") + threads());
      }
      System.gc();
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }

  /** Mappings of jffi's native library, of which each class loader has a copy. */
  static long nativeLibraries() throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains("jffi")).count();
    }
  }

  /** The same once there are at most so many: a library goes a moment after its loader. */
  static long nativeLibraries(long enough) throws IOException {
    long end = System.nanoTime() + MOST_NANOS;
    long now = nativeLibraries();
    while (now > enough && System.nanoTime() < end) {
      System.gc();
      LockSupport.parkNanos(PAUSE_NANOS);
      now = nativeLibraries();
    }
    return now;
  }

  private static boolean isAny(List<WeakReference<ClassLoader>> loaders) {
    return loaders.stream().anyMatch(each -> each.get() != null);
  }

  /** Threads of such loaders; this JVM's own nccl4j may have some of other tests. */
  private static List<String> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getContextClassLoader() instanceof ChildFirstLoader)
        .map(Thread::getName)
        .filter(name -> name.startsWith("nccl4j"))
        .sorted()
        .toList();
  }
}
