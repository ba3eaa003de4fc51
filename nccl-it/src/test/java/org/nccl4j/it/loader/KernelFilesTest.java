package org.nccl4j.it.loader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Predicate;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The kernels of nccl-kernels are found wherever a transport would be, and are missed by name. */
class KernelFilesTest {
  private static final String FILES = "org.nccl4j.device.cuda.driver.KernelFiles";
  private static final String BUILD = "org.nccl4j.device.cuda.driver.KernelBuild";
  private static final Path KERNELS = Path.of("../nccl-device/kernels/target/classes");

  private static boolean isKernels(Path path) {
    return path.toString().contains("nccl-kernels") || path.endsWith(KERNELS.subpath(1, 5));
  }

  /** What this JVM's paths have, and a choice of it. */
  private static URL[] urls(Predicate<Path> which) {
    return Stream.of(new ChildFirstLoader().getURLs())
        .map(url -> Path.of(url.getPath()))
        .filter(which)
        .map(KernelFilesTest::url)
        .toArray(URL[]::new);
  }

  private static URL url(Path path) {
    try {
      return path.toUri().toURL();
    } catch (MalformedURLException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static byte[] properties(ClassLoader loader) throws Exception {
    Class<?> files = Class.forName(FILES, true, loader);
    return (byte[]) files.getMethod("read", String.class).invoke(null, "build.properties");
  }

  private static String build(ClassLoader loader) throws Exception {
    return Class.forName(BUILD, true, loader).getMethod("present").invoke(null).toString();
  }

  @Test
  void aLoaderOfItsOwnHasThem() throws Exception {
    try (ChildFirstLoader loader = new ChildFirstLoader()) {
      assertTrue(properties(loader).length > 0);
      assertFalse(build(loader).contains("nccl-kernels"), build(loader));
    }
  }

  /** As in a web application that has them beside a library that it shares with others. */
  @Test
  void theContextClassLoaderHasThem() throws Exception {
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    try (URLClassLoader shared = new URLClassLoader(urls(path -> !isKernels(path)), null);
        URLClassLoader application = new URLClassLoader(urls(KernelFilesTest::isKernels), shared);
        ChildFirstLoader stranger = new ChildFirstLoader()) {
      thread.setContextClassLoader(shared);
      assertNull(properties(shared));
      thread.setContextClassLoader(application);
      assertTrue(properties(shared).length > 0);
      // Its kernels are those of another nccl4j.
      thread.setContextClassLoader(stranger);
      assertNull(properties(shared));
    } finally {
      thread.setContextClassLoader(before);
    }
  }

  @Test
  void whereTheyAreMissingTheArtifactIsNamed() throws Exception {
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    try (URLClassLoader loader = new URLClassLoader(urls(path -> !isKernels(path)), null)) {
      thread.setContextClassLoader(loader);
      assertEquals(
          "no CUDA kernels: the artifact org.nccl4j:nccl-kernels is not on the class path or module"
              + " path",
          build(loader));
    } finally {
      thread.setContextClassLoader(before);
    }
  }

  /** All in one jar, as shading plug-ins make it; files of services may get lost there. */
  @Test
  void aFatJarHasThem(@TempDir Path folder) throws Exception {
    Path jar = folder.resolve("fat.jar");
    try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar))) {
      for (Path root : List.of(Path.of("../nccl-device/target/classes"), KERNELS)) {
        add(root.toAbsolutePath().normalize(), out);
      }
    }
    try (URLClassLoader loader = new URLClassLoader(new URL[] {url(jar)}, null)) {
      assertTrue(properties(loader).length > 0);
    }
  }

  private static void add(Path root, JarOutputStream out) throws IOException {
    try (Stream<Path> files = Files.walk(root)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        String name = root.relativize(file).toString();
        if (name.contains("Kernel") || name.startsWith("META-INF/nccl4j/kernels/build")) {
          out.putNextEntry(new JarEntry(name));
          Files.copy(file, out);
          out.closeEntry();
        }
      }
    }
  }

  /** Nothing requires the module of the kernels: it comes by its service. */
  @Test
  void modulesBindThem() throws Exception {
    String modules =
        Stream.concat(
                Stream.of(urls(path -> isForeign(path.getFileName().toString()))).map(URL::getPath),
                Stream.of(
                    "../nccl-topo/target/classes",
                    "../nccl-device/target/classes",
                    KERNELS.toString()))
            .collect(Collectors.joining(File.pathSeparator));
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                "target/test-classes",
                KernelLayers.class.getName(),
                modules)
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    assertEquals(List.of("true true", "true true"), output.lines().toList());
  }

  /** The libraries that nccl-device requires. */
  private static boolean isForeign(String jar) {
    return FileSystems.getDefault()
        .getPathMatcher("glob:{jnr-*,jffi-*,asm-*}.jar")
        .matches(Path.of(jar));
  }
}
