package org.nccl4j.it.loader;

import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;

/**
 * A loader of all that this JVM's paths have, as a web application's or a Spark executor's: it
 * shares the JDK alone with others.
 */
final class ChildFirstLoader extends URLClassLoader {
  ChildFirstLoader() {
    super(urls(), null); // the platform's loader sees the modules of this JVM's path
  }

  private static URL[] urls() {
    Set<String> paths = new TreeSet<>();
    for (String property : new String[] {"java.class.path", "jdk.module.path"}) {
      for (String path : System.getProperty(property, "").split(File.pathSeparator)) {
        if (!path.isEmpty()) {
          paths.add(path);
        }
      }
    }
    paths.add(tests());
    return paths.stream().map(ChildFirstLoader::url).toArray(URL[]::new);
  }

  /** The folder of the tests' classes. Where they are patched into a module, it is on no path. */
  private static String tests() {
    String file = "/" + ChildFirstLoader.class.getName().replace('.', '/') + ".class";
    String path = ChildFirstLoader.class.getResource(file).getPath();
    return path.substring(0, path.length() - file.length());
  }

  private static URL url(String path) {
    try {
      return Path.of(path).toUri().toURL();
    } catch (MalformedURLException e) {
      throw new AssertionError(e);
    }
  }

  /** Runs {@link LoadedProgram#sum} as loaded here, with a context class loader. */
  String sum(String transports, ClassLoader context) throws Exception {
    Class<?> program = Class.forName(LoadedProgram.class.getName(), true, this);
    if (program.getClassLoader() != this) {
      throw new AssertionError(program + " is not of its own loader");
    }
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    thread.setContextClassLoader(context);
    try {
      return (String) program.getMethod("sum", String.class).invoke(null, transports);
    } finally {
      thread.setContextClassLoader(before);
    }
  }
}
