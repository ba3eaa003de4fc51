package org.nccl4j.it.loader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;

/** A library that is in no system class loader: of a web application, or of Spark's --jars. */
@Timeout(600)
class ClassLoaderTest {
  private static final int DEPLOYMENTS = Boolean.getBoolean("nccl4j.thorough") ? 10 : 6;

  @Test
  void aLoaderOfItsOwnFindsTransports() throws Exception {
    try (ChildFirstLoader loader = new ChildFirstLoader()) {
      assertEquals("{1=P2P, 2=P2P} 6.0", loader.sum("", ClassLoader.getSystemClassLoader()));
    }
  }

  /** Two at once in one process, each with its own classes, native libraries and threads. */
  @Test
  void twoLoadersInOneProcess() throws Exception {
    try (ChildFirstLoader one = new ChildFirstLoader();
        ChildFirstLoader two = new ChildFirstLoader()) {
      List<CompletableFuture<String>> sums =
          List.of(inThread(one), inThread(two), inThread(one), inThread(two));
      for (CompletableFuture<String> each : sums) {
        assertTrue(each.get().endsWith(" 6.0"), each.get());
      }
    }
  }

  private static CompletableFuture<String> inThread(ChildFirstLoader loader) {
    CompletableFuture<String> sum = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                sum.complete(loader.sum("SHM", loader));
              } catch (Exception | AssertionError e) {
                sum.completeExceptionally(e);
              }
            },
            "of a loader");
    thread.start();
    return sum;
  }

  /** A web application that shares nccl4j with others can be unloaded while these use it. */
  @Test
  void threadsKeepNoLoaderOfWhoStartsThem() throws Exception {
    try (URLClassLoader application = new URLClassLoader(new URL[0])) {
      Thread thread = Thread.currentThread();
      ClassLoader before = thread.getContextClassLoader();
      thread.setContextClassLoader(application);
      List<Communicator> ranks =
          Communicator.initAll(
              List.of(Devices.host(), Devices.host()),
              CommunicatorConfig.defaults()
                  .withName("shared")
                  .with("NCCL4J_TRANSPORTS", "NET")
                  .with("NCCL_NET", "Socket"));
      thread.setContextClassLoader(before);
      List<Thread> threads =
          Thread.getAllStackTraces().keySet().stream()
              .filter(each -> each.getName().matches("nccl4j-(proxy|socket)-.*"))
              .toList();
      List<String> keeping =
          threads.stream()
              .filter(each -> each.getContextClassLoader() == application)
              .map(Thread::getName)
              .toList();
      ranks.forEach(Communicator::close);
      assertTrue(threads.size() > 1, threads::toString);
      assertEquals(List.of(), keeping);
    }
  }

  /**
   * Each deployment leaves no thread, and its classes and native library are gone with the next.
   * Not at once: the JDK keeps the class of the last record that was compared (ObjectMethods).
   */
  @Test
  void redeployingLeavesNothing() throws Exception {
    List<WeakReference<ClassLoader>> before = List.of();
    List<Long> libraries = new ArrayList<>();
    for (int time = 0; time < DEPLOYMENTS; time++) {
      WeakReference<ClassLoader> last = deploy(time % 2 == 0 ? "P2P" : "NET");
      Leftovers.assertCollected(before);
      before = List.of(last);
      libraries.add(Leftovers.nativeLibraries());
    }
    long most = libraries.get(1);
    long left = Leftovers.nativeLibraries(most);
    assertTrue(left <= most, "mappings of jffi's library: " + libraries + ", then " + left);
  }

  private static WeakReference<ClassLoader> deploy(String transports) throws Exception {
    try (ChildFirstLoader loader = new ChildFirstLoader()) {
      assertTrue(loader.sum(transports, loader).endsWith(" 6.0"));
      return new WeakReference<>(loader);
    }
  }
}
