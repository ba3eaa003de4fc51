package org.nccl4j.device.bind;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/** Error messages on libraries that cannot be loaded. */
class NativeLibraryTest {
  /** A library that no machine has. */
  public interface Nothing {
    int nothing();
  }

  @Test
  void eachCallOfAMissingLibrarySaysWhy() {
    SystemErrorException why =
        assertThrows(
            SystemErrorException.class,
            () -> NativeLibrary.load(Nothing.class, "libnccl4j-missing.so.1"));
    Nothing missing = NativeLibrary.failing(Nothing.class, why);
    for (int time = 0; time < 2; time++) {
      SystemErrorException e = assertThrows(SystemErrorException.class, missing::nothing);
      assertEquals(ErrorId.LIBRARY, e.id());
      assertTrue(e.problem().contains("libnccl4j-missing.so.1"), e.problem());
    }
  }

  @Test
  void deniedNativeAccessNamesTheOption() {
    SystemErrorException e = failure(new IllegalCallerException("Illegal native access"));
    assertTrue(e.problem().contains("denies native access"), e.problem());
    assertTrue(e.remedy().contains("--enable-native-access=ALL-UNNAMED"), e.remedy());
    assertTrue(
        e.remedy()
            .contains(
                NativeBackend.FOREIGN
                    ? "--enable-native-access=org.nccl4j.device"
                    : "--enable-native-access=org.jnrproject.jffi"),
        e.remedy());
  }

  @Test
  void aRuntimeWithoutAModuleNamesTheModule() {
    SystemErrorException e = failure(new NoClassDefFoundError("sun/misc/Unsafe"));
    assertTrue(e.remedy().contains("jdk.unsupported"), e.remedy());
  }

  /** It is the process's, and other users of jnr-ffi have use of what it switches off. */
  @Test
  void jnrsPropertyIsAsItWas() {
    assertTrue(Jffi.symbol("libc.so.6", "mmap") != 0);
    assertEquals(null, System.getProperty("jnr.ffi.x86asm.enabled"));
  }

  /** With jnr-ffi's own stubs the sixth would be the return address. */
  @Test
  void sixArgumentsArrive() {
    SixArguments libc = Jffi.load(SixArguments.class, "libc.so.6");
    // Memory that nobody may use, of no file, so mmap refuses an offset that is within a page.
    assertEquals(-1, libc.mmap(0, 4096, 0, 0x22, -1, 1));
    assertTrue(libc.mmap(0, 4096, 0, 0x22, -1, 0) != -1);
  }

  /** A function of exactly six integers. */
  public interface SixArguments {
    long mmap(long address, long bytes, int protection, int flags, int file, long offset);
  }

  private static SystemErrorException failure(Throwable cause) {
    UnsatisfiedLinkError error = new UnsatisfiedLinkError("could not load FFI provider");
    error.initCause(cause);
    return NativeLibrary.failure("libc.so.6", error);
  }
}
