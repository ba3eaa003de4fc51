package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Devices work without JCuda's classes, which only users of its handles need. */
class WithoutJcudaTest {
  private static URLClassLoader loader() throws Exception {
    List<URL> urls = new ArrayList<>();
    for (String property : List.of("jdk.module.path", "java.class.path")) {
      for (String entry : System.getProperty(property, "").split(File.pathSeparator)) {
        Path path = Path.of(entry);
        String name = path.getFileName().toString();
        // Surefire's jar has all others' names in its manifest.
        if (!entry.isEmpty() && !name.startsWith("jcuda") && !name.startsWith("surefire")) {
          urls.add(path.toUri().toURL());
        }
      }
    }
    // The platform's loader sees all modules, so the parent is the boot loader.
    return new URLClassLoader(urls.toArray(URL[]::new), null);
  }

  @Test
  void devicesAreFoundWithoutIt() throws Exception {
    try (URLClassLoader loader = loader()) {
      assertThrows(
          ClassNotFoundException.class, () -> Class.forName("jcuda.Pointer", false, loader));
      Class<?> device = Class.forName("org.nccl4j.device.cuda.CudaDevice", true, loader);
      assertEquals(loader, device.getClassLoader());
      Class<?> devices = loader.loadClass("org.nccl4j.api.Devices");
      Object host = devices.getMethod("host").invoke(null);
      assertEquals("HOST", host.getClass().getMethod("kind").invoke(host).toString());
    }
  }
}
