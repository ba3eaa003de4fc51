package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import jnr.ffi.LibraryLoader;
import org.nccl4j.device.bind.NativeLibrary;

/**
 * The recording driver of fakecuda.c in this process, in place of NVIDIA's: its soname is
 * libcuda.so.1, so whoever asks for that afterwards gets it.
 */
public final class FakeCuda {
  private static FakeLibrary library;

  private FakeCuda() {}

  /** Loads it once; skips the test, with the reason, where it cannot be built. */
  public static synchronized FakeLibrary get() {
    if (library == null) {
      NativeLibrary.isForeign(); // first: it turns off jnr-ffi's stubs, which lose sixth arguments
      try {
        Path built = Files.createTempDirectory("fakecuda").resolve("libcuda.so.1");
        NativeBuild.gcc(
            "-shared",
            "-fPIC",
            "-Wall",
            "-Werror",
            "-I" + NativeBuild.cudaInclude(),
            "-Wl,-soname,libcuda.so.1",
            "-o",
            built.toString(),
            NativeBuild.source("src/test/c/fakecuda.c").toString());
        System.load(built.toString());
        library = LibraryLoader.create(FakeLibrary.class).failImmediately().load(built.toString());
        built.toFile().deleteOnExit();
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }
    awaitFrees(); // those of the test before, whose calls would be in the record of this one
    library.fakeReset();
    return library;
  }

  /**
   * The objects that live, after the threads have ended that free memory: a close waits for them
   * for a moment only.
   */
  public static synchronized long live() {
    awaitFrees();
    return library.fakeLive();
  }

  /** Waits until the threads have ended that free what has been closed. */
  public static void awaitFrees() {
    for (Thread each : Thread.getAllStackTraces().keySet()) {
      if (each.getName().equals("nccl4j-free")) {
        assertDoesNotThrow(() -> each.join(300_000));
        assertFalse(each.isAlive(), "memory is not freed within five minutes");
      }
    }
  }

  /** A device that knows nothing yet. */
  public static CudaDevice device(int index) {
    return new CudaDevice(index);
  }
}
