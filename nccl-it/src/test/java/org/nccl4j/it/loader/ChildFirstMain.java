package org.nccl4j.it.loader;

import java.util.Arrays;

/** Runs the main method of a class as loaded by a {@link ChildFirstLoader}. */
public final class ChildFirstMain {
  private ChildFirstMain() {}

  /** The class, then its arguments. */
  public static void main(String[] arguments) throws Exception {
    try (ChildFirstLoader loader = new ChildFirstLoader()) {
      Thread.currentThread().setContextClassLoader(loader);
      Class.forName(arguments[0], true, loader)
          .getMethod("main", String[].class)
          .invoke(null, (Object) Arrays.copyOfRange(arguments, 1, arguments.length));
    }
  }
}
