package org.nccl4j.device.cuda.driver;

import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.ServiceLoader;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.bind.NativeLibrary;

/**
 * Loads the classes that creating a communicator needs, and runs every {@link StartupHook}, while
 * the driver starts and the program makes the GPUs' contexts. Reading and verifying these hundreds
 * of classes takes up to a third of the first creation of a process. The list {@value #LIST} has a
 * name on each line. No class is initialised. docs/benchmarks/communicators.md has the figures.
 */
final class ClassPreloader {
  private static final System.Logger LOG = DebugLog.of("INIT");

  /** The class list, a resource of nccl-api. */
  static final String LIST = "META-INF/nccl4j/creation.classes";

  private ClassPreloader() {}

  /**
   * Begins it on threads of their own. Returns at once.
   *
   * @param first what is needed before all else
   */
  static void begin(Runnable first) {
    inBackground("nccl4j-driver", first);
    inBackground("nccl4j-classes", ClassPreloader::load);
    inBackground("nccl4j-preparation", ClassPreloader::prepare);
  }

  private static void inBackground(String name, Runnable body) {
    Thread thread = new Thread(body, name);
    thread.setDaemon(true);
    thread.start();
  }

  private static void prepare() {
    try {
      ServiceLoader.load(StartupHook.class, ClassPreloader.class.getClassLoader())
          .forEach(StartupHook::prepare);
    } catch (RuntimeException | Error e) {
      // Nobody waits for this. A later user loads the class again and gets the error.
      LOG.log(Level.DEBUG, "The classes of the first creation could not be loaded: {0}", e);
    }
  }

  private static void load() {
    ClassLoader loader = ClassPreloader.class.getClassLoader();
    try (InputStream list = loader.getResourceAsStream(LIST)) {
      if (list != null) {
        new String(list.readAllBytes(), StandardCharsets.UTF_8)
            .lines()
            .filter(ClassPreloader::isOfThisJvm)
            .forEach(name -> load(name, loader));
      }
    } catch (IOException e) {
      // They are loaded when they are needed.
    }
  }

  /** False for classes of jnr-ffi where the JDK's own foreign functions are used. */
  private static boolean isOfThisJvm(String name) {
    return !NativeLibrary.isForeign() || !name.startsWith("jnr.") && !name.startsWith("com.kenai.");
  }

  private static void load(String name, ClassLoader loader) {
    try {
      // Asked for its constructors, a class is verified too.
      Class<?> read = Class.forName(name, /* initialize= */ false, loader);
      Objects.requireNonNull(read.getDeclaredConstructors());
    } catch (ClassNotFoundException | LinkageError e) {
      // Of a module or library version that is not there: it will not be needed.
    }
  }
}
