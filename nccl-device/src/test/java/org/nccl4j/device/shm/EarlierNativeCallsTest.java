package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.kenai.jffi.MemoryIO;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import jnr.ffi.LibraryLoader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Memory is mapped rightly also where somebody used jnr-ffi before this library could configure it,
 * when jnr-ffi passes the sixth of exactly six integers wrong.
 */
@Timeout(600)
final class EarlierNativeCallsTest {
  /** A library of somebody else's. */
  public interface Somebody {
    /** See getpid(2). */
    int getpid();
  }

  /** Calls a native function, then maps the file that it is given. */
  public static final class Main {
    /** Starts it. */
    public static void main(String[] args) {
      LibraryLoader.create(Somebody.class).load("libc.so.6").getpid();
      try (MappedRegion region = MappedRegion.ofFile(Path.of(args[0]), 8192)) {
        System.out.println(MemoryIO.getInstance().getByte(region.address() + 8191));
      }
    }
  }

  @Test
  void mappingIsRightAfterThem(@TempDir Path directory) throws IOException {
    Path file = directory.resolve("region");
    byte[] content = new byte[8192];
    content[8191] = 42;
    Files.write(file, content);
    try (ChildJvm child = new ChildJvm(Main.class, file.toString())) {
      assertEquals("42", child.readLine());
    }
  }
}
