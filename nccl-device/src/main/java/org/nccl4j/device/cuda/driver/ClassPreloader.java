package org.nccl4j.device.cuda.driver;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.ServiceLoader;
import org.nccl4j.device.DebugLog;

/**
 * Loads the classes that making a communicator needs, while the driver starts and the program makes
 * the GPUs' contexts: they are some hundreds, and a third of the time that the first communicator
 * of a process takes goes into reading and verifying them. Modules list theirs in {@value #LIST}, a
 * name a line. None is initialised, so nothing happens but that they are there. What modules do
 * beyond that is their {@link StartupHook}.
 */
final class ClassPreloader {
  private static final System.Logger LOG = DebugLog.of("INIT");

  /** Name of the class list in a jar or module. */
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
      LOG.log(Level.DEBUG, "Creation could not be prepared: {0}", e);
    }
  }

  private static void load() {
    ClassLoader loader = ClassPreloader.class.getClassLoader();
    for (String name : names(loader)) {
      try {
        // Asked for its constructors, a class is verified too.
        Class<?> read = Class.forName(name, /* initialize= */ false, loader);
        Objects.requireNonNull(read.getDeclaredConstructors());
      } catch (ClassNotFoundException | LinkageError e) {
        // Of a module or library version that is not there: it will not be needed.
      }
    }
  }

  private static List<String> names(ClassLoader loader) {
    List<String> names = new ArrayList<>();
    try {
      for (var list : Collections.list(loader.getResources(LIST))) {
        try (BufferedReader reader =
            new BufferedReader(new InputStreamReader(list.openStream(), StandardCharsets.UTF_8))) {
          reader.lines().forEach(names::add);
        }
      }
    } catch (IOException e) {
      // They are loaded when they are needed.
    }
    return names;
  }
}
