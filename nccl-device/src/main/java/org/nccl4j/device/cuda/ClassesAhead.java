package org.nccl4j.device.cuda;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * Loads the classes that making a communicator needs, while the program makes the GPUs' contexts
 * and allocates its memory: they are some hundreds, and a third of the time that the first
 * communicator of a process takes goes into reading and verifying them. Modules list theirs in
 * {@value #LIST}, a name a line. None is initialised, so nothing happens but that they are there.
 */
final class ClassesAhead {
  /** Of a jar or module. */
  static final String LIST = "META-INF/nccl4j/creation.classes";

  private ClassesAhead() {}

  /** Begins it on a thread of its own. Returns at once. */
  static void begin() {
    Thread loading = new Thread(ClassesAhead::load, "nccl4j-classes");
    loading.setDaemon(true);
    loading.start();
  }

  private static void load() {
    ClassLoader loader = ClassesAhead.class.getClassLoader();
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
