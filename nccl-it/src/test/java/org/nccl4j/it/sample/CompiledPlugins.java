package org.nccl4j.it.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Plug-ins of a source file, compiled against the API alone and found by this thread until this is
 * closed, as those of a jar on the class path are.
 */
public final class CompiledPlugins implements AutoCloseable {
  private static final Pattern CLASS = Pattern.compile("public final class (\\w+)");

  private final ClassLoader usual = Thread.currentThread().getContextClassLoader();
  private final URLClassLoader loader;

  private CompiledPlugins(Path classes) throws IOException {
    loader =
        new URLClassLoader(
            new URL[] {classes.toUri().toURL()}, CompiledPlugins.class.getClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
  }

  /**
   * Compiles.
   *
   * @param folder an empty one
   * @param services which class provides which service
   */
  public static CompiledPlugins of(Path folder, String source, Map<Class<?>, String> services)
      throws IOException {
    Matcher name = CLASS.matcher(source);
    assertEquals(true, name.find());
    Path file = Files.writeString(folder.resolve(name.group(1) + ".java"), source);
    Path classes = Files.createDirectory(folder.resolve("classes"));
    String path =
        Stream.of(System.getProperty("jdk.module.path"), System.getProperty("java.class.path"))
            .filter(text -> text != null && !text.isEmpty())
            .collect(Collectors.joining(File.pathSeparator));
    StringWriter said = new StringWriter();
    PrintWriter out = new PrintWriter(said);
    String[] command = {"-d", classes.toString(), "-cp", path, file.toString()};
    int status = ToolProvider.findFirst("javac").orElseThrow().run(out, out, command);
    assertEquals(0, status, said.toString());
    Path found = Files.createDirectories(classes.resolve("META-INF/services"));
    for (Map.Entry<Class<?>, String> service : services.entrySet()) {
      Files.writeString(found.resolve(service.getKey().getName()), service.getValue() + "\n");
    }
    return new CompiledPlugins(classes);
  }

  /** One of its classes. */
  public Class<?> load(String name) throws ClassNotFoundException {
    return loader.loadClass(name);
  }

  @Override
  public void close() throws IOException {
    Thread.currentThread().setContextClassLoader(usual);
    loader.close();
  }
}
