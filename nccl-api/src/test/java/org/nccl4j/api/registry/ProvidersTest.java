package org.nccl4j.api.registry;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.spi.Tuner;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.spi.TunerProvider;

/** Providers of this library's class loader and of the calling thread's. */
class ProvidersTest {
  /** A tuner that only {@link #theContextsPluginsAreFoundOnce} names. */
  public static final class Named implements TunerProvider {
    /** For the service loader. */
    public Named() {}

    @Override
    public String name() {
      return "named";
    }

    @Override
    public Tuner open(TunerContext context) {
      throw new UnsupportedOperationException();
    }
  }

  /** A web application's loader, which has a plug-in's class of its own. */
  private static final class Application extends URLClassLoader {
    Application(URL[] services, ClassLoader parent) {
      super(services, parent);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      if (!name.equals(Named.class.getName())) {
        return super.loadClass(name, resolve);
      }
      Class<?> loaded = findLoadedClass(name);
      return loaded == null ? define(name) : loaded;
    }

    private Class<?> define(String name) throws ClassNotFoundException {
      String file = name.substring(name.lastIndexOf('.') + 1) + ".class";
      try (InputStream in = ProvidersTest.class.getResourceAsStream(file)) {
        byte[] bytes = in.readAllBytes();
        return defineClass(name, bytes, 0, bytes.length);
      } catch (IOException e) {
        throw new ClassNotFoundException(name, e);
      }
    }
  }

  @TempDir private Path folder;

  private URL[] services(String... lines) throws IOException {
    Path services = Files.createDirectories(folder.resolve("META-INF/services"));
    Files.write(services.resolve(TunerProvider.class.getName()), List.of(lines));
    return new URL[] {folder.toUri().toURL()};
  }

  private static List<String> in(ClassLoader context) {
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    thread.setContextClassLoader(context);
    try {
      List<String> names = new ArrayList<>();
      Providers.of(TunerProvider.class).forEachRemaining(each -> names.add(each.name()));
      return names;
    } finally {
      thread.setContextClassLoader(before);
    }
  }

  /** Of a web application that shares this library with others. */
  @Test
  void theContextsPluginsAreFoundOnce() throws IOException {
    List<String> own = in(null);
    List<String> more = new ArrayList<>(own);
    more.add("named");
    ClassLoader parent = ProvidersTest.class.getClassLoader();
    try (URLClassLoader child = new Application(services(Named.class.getName()), parent);
        URLClassLoader grandchild = new URLClassLoader(new URL[0], child)) {
      assertEquals(more, in(child));
      assertEquals(more, in(grandchild));
    }
    assertEquals(own, in(parent));
  }

  /** A container's own loader, or one with an nccl4j of its own. */
  @Test
  void aContextWithoutThisLibraryIsNotAsked() throws IOException {
    List<String> own = in(null);
    try (URLClassLoader other = new URLClassLoader(services("no.such.Provider"), null)) {
      assertEquals(own, in(other));
    }
  }
}
