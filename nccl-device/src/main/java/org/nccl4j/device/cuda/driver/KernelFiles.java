package org.nccl4j.device.cuda.driver;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.ServiceLoader;

/**
 * The files of the artifact nccl-kernels. As with transports, this library's class loader is asked,
 * then the calling thread's context class loader, unless that has an nccl4j of its own. Any thread
 * may call.
 *
 * <p>They are resources below {@value #FOLDER}, which no module can hide from a class loader: on a
 * class path, in a fat jar, and in a class loader of a program's own they are found by name. Where
 * this library is a module, a provider of {@link KernelImages} has them.
 */
public final class KernelFiles {
  /** The artifact, for errors. */
  static final String ARTIFACT = "org.nccl4j:nccl-kernels";

  private static final String FOLDER = "META-INF/nccl4j/kernels/";

  private KernelFiles() {}

  /** The providers of this library's class loader, whose modules do not change. */
  private static final class Providers {
    static final List<KernelImages> ALL =
        ServiceLoader.load(KernelImages.class, KernelFiles.class.getClassLoader()).stream()
            .map(ServiceLoader.Provider::get)
            .toList();
  }

  /**
   * Reads a file.
   *
   * @return null if there is none
   */
  public static byte[] read(String file) {
    try (InputStream in = open(file)) {
      return in == null ? null : in.readAllBytes();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** True if there is a file of a name. */
  public static boolean has(String file) {
    try (InputStream in = open(file)) {
      return in != null;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static InputStream open(String file) {
    String path = FOLDER + file;
    ClassLoader own = KernelFiles.class.getClassLoader();
    InputStream in = KernelFiles.class.getModule().isNamed() ? ofProvider(path) : null;
    if (in == null) {
      in = own.getResourceAsStream(path);
    }
    ClassLoader context = Thread.currentThread().getContextClassLoader();
    if (in == null && context != null && context != own && sees(context)) {
      in = context.getResourceAsStream(path);
    }
    return in;
  }

  private static InputStream ofProvider(String path) {
    for (KernelImages images : Providers.ALL) {
      InputStream in = images.open(path);
      if (in != null) {
        return in;
      }
    }
    return null;
  }

  private static boolean sees(ClassLoader loader) {
    try {
      return Class.forName(KernelFiles.class.getName(), /* initialize= */ false, loader)
          == KernelFiles.class;
    } catch (ClassNotFoundException | LinkageError e) {
      return false;
    }
  }
}
