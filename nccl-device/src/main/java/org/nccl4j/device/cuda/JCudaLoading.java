package org.nccl4j.device.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Loads JCuda's native library without a race and on the module path.
 *
 * <p>JCuda by itself unpacks to one fixed name in the temporary directory and maps the file while
 * another process may still be writing it, and it looks in its own module only, where its natives
 * are not. So the library is unpacked here into a directory of this process, which JCuda is shown
 * as the temporary directory for the time of its initialisation.
 */
final class JCudaLoading {
  private static final String FILE = "libJCudaDriver-12.6.0-linux-x86_64.so";
  private static final String TMPDIR = "java.io.tmpdir";

  private JCudaLoading() {}

  /**
   * Loads it. Called once.
   *
   * @throws UnsatisfiedLinkError if the library or the driver's is missing
   */
  static void load() throws IOException {
    try (InputStream resource = resource()) {
      if (resource == null) {
        throw new UnsatisfiedLinkError(
            "no " + FILE + " in jcuda-natives on the class or module path");
      }
      Path directory = Files.createTempDirectory("nccl4j-jcuda");
      Path file = directory.resolve(FILE);
      try {
        Files.copy(resource, file);
        String before = System.getProperty(TMPDIR);
        System.setProperty(TMPDIR, directory.toString());
        try {
          Class.forName("jcuda.driver.JCudaDriver");
        } catch (ClassNotFoundException e) {
          throw new UnsatisfiedLinkError("no jcuda on the class or module path");
        } finally {
          System.setProperty(TMPDIR, before);
        }
      } finally {
        Files.deleteIfExists(file);
        Files.delete(directory);
      }
    }
  }

  private static InputStream resource() throws IOException {
    var natives = ModuleLayer.boot().findModule("jcuda.natives");
    if (natives.isPresent()) {
      InputStream resource = natives.get().getResourceAsStream("lib/" + FILE);
      if (resource != null) {
        return resource;
      }
    }
    return ClassLoader.getSystemResourceAsStream("lib/" + FILE);
  }
}
