package org.nccl4j.it.abi;

import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A program that runs tasks in threads of a pool, as an executor of Spark does: a task's classes
 * come from a loader of their own, which has a library of native methods that calls NCCL. Neither
 * loader has classes of nccl4j or of jnr-ffi. Prints the sum of each task.
 */
public final class TaskProgram {
  private TaskProgram() {}

  /** The task's class. Public for the program's call of its loader's. */
  public static final class Task {
    private Task() {}

    /** Loads the library, and sums. */
    public static int run(String library) {
      System.load(library);
      return sum();
    }

    private static native int sum();
  }

  /** Argument: the library of native methods. */
  public static void main(String[] arguments) throws Exception {
    URL classes = TaskProgram.class.getProtectionDomain().getCodeSource().getLocation();
    ExecutorService threads = Executors.newFixedThreadPool(2);
    try (URLClassLoader loader =
        new URLClassLoader(new URL[] {classes}, ClassLoader.getPlatformClassLoader())) {
      Class<?> task = loader.loadClass(Task.class.getName());
      List<Future<Object>> sums = new ArrayList<>();
      for (int each = 0; each < 4; each++) {
        sums.add(
            threads.submit(() -> task.getMethod("run", String.class).invoke(null, arguments[0])));
      }
      for (Future<Object> sum : sums) {
        System.out.print(sum.get());
      }
    }
    System.out.println();
    System.exit(0);
  }
}
