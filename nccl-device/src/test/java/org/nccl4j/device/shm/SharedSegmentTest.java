package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.kenai.jffi.MemoryIO;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;

final class SharedSegmentTest {
  private static final MemoryIO MEMORY = MemoryIO.getInstance();
  private static final Path DEV_SHM = Path.of("/dev/shm");

  private static SharedSegment create(String kind, long bytes) {
    return kind.equals("memfd")
        ? SharedSegment.create(bytes)
        : SharedSegment.createIn(DEV_SHM, bytes);
  }

  @ParameterizedTest
  @ValueSource(strings = {"memfd", "devshm"})
  void twoMappingsShowTheSameBytes(String kind) {
    long bytes = 3L << 30;
    try (SharedSegment segment = create(kind, bytes);
        MappedRegion other = SharedSegment.attach(copyOf(segment.fd()), bytes)) {
      segment.reserve(bytes - 4096, 4096);
      assertEquals(0, MEMORY.getLong(other.address() + bytes - 8));
      MEMORY.putLong(segment.address() + bytes - 8, 7);
      assertEquals(7, MEMORY.getLong(other.address() + bytes - 8));
    }
  }

  /** Persian has digits of its own, which the names of files in /proc do not have. */
  @Test
  void theSegmentOfAProcessIsFoundWhereDigitsArePersian() {
    Locale before = Locale.getDefault();
    Locale.setDefault(new Locale("fa", "IR"));
    try (SharedSegment segment = SharedSegment.create(4096)) {
      assertEquals("۷", "%d".formatted(7));
      long process = ProcessHandle.current().pid();
      try (MappedRegion other = SharedSegment.attachOf(process, segment.fd(), 4096)) {
        MEMORY.putLong(segment.address(), 7);
        assertEquals(7, MEMORY.getLong(other.address()));
      }
    } finally {
      Locale.setDefault(before);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"memfd", "devshm"})
  void closingLeavesNothing(String kind) throws IOException {
    SharedSegment segment = create(kind, 1L << 34);
    long address = segment.address();
    int fd = segment.fd();
    Path open = Path.of("/proc/self/fd/" + fd);
    assertEquals(0, Files.getAttribute(open, "unix:nlink"), "a segment has no name");
    String target = Files.readSymbolicLink(open).toString();
    assertTrue(ProcessState.now().maps(address, 1L << 34));
    segment.close();
    segment.close();
    assertEquals(false, ProcessState.now().maps(address, 1L << 34));
    assertTrue(
        !Files.exists(open, LinkOption.NOFOLLOW_LINKS)
            || !Files.readSymbolicLink(open).toString().equals(target));
    assertThrows(InvalidUsageException.class, segment::fd);
  }

  @Test
  void nobodyCanShrinkAMemfd() throws IOException {
    try (SharedSegment segment = SharedSegment.create(8192);
        var file =
            FileChannel.open(Path.of("/proc/self/fd/" + segment.fd()), StandardOpenOption.WRITE)) {
      assertThrows(IOException.class, () -> file.truncate(0));
    }
  }

  @Test
  void aSegmentOfAnotherSizeIsRefused() {
    try (SharedSegment segment = SharedSegment.create(8192)) {
      int copy = copyOf(segment.fd());
      SystemErrorException e =
          assertThrows(SystemErrorException.class, () -> SharedSegment.attach(copy, 4096));
      assertTrue(e.getMessage().contains("8192 bytes, not the 4096"), e.getMessage());
    }
  }

  @Test
  void aMissingDirectoryIsNamedWithTheRemedy() {
    SystemErrorException e =
        assertThrows(
            SystemErrorException.class,
            () -> SharedSegment.createIn(Path.of("/nonexistent/shm"), 4096));
    assertTrue(e.getMessage().contains("/nonexistent/shm: No such file"), e.getMessage());
    assertTrue(e.getMessage().contains("--shm-size"), e.getMessage());
    assertTrue(e.getMessage().contains("emptyDir"), e.getMessage());
  }

  @Test
  void aFullFileSystemIsNoticedBeforeItIsTouched(@TempDir Path mount) throws Exception {
    assumeTrue(
        mounts(mount, "size=1m"), "mounting a tmpfs needs root and the capability CAP_SYS_ADMIN");
    try (SharedSegment segment = SharedSegment.createIn(mount, 1L << 30)) {
      segment.reserve(0, 512 << 10);
      SystemErrorException e =
          assertThrows(SystemErrorException.class, () -> segment.reserve(1 << 20, 1 << 20));
      assertTrue(e.getMessage().contains("1048576 more bytes"), e.getMessage());
      assertTrue(e.getMessage().contains("of 1048576 bytes free"), e.getMessage());
      assertTrue(e.getMessage().contains("--shm-size=1g"), e.getMessage());
      assertTrue(e.getMessage().contains("emptyDir with medium: Memory"), e.getMessage());
    } finally {
      new ProcessBuilder("umount", mount.toString()).inheritIO().start().waitFor();
    }
  }

  private static boolean mounts(Path at, String options) throws Exception {
    return new ProcessBuilder("mount", "-t", "tmpfs", "-o", options, "tmpfs", at.toString())
            .start()
            .waitFor()
        == 0;
  }

  /** Attaching closes the descriptor, so tests hand over a copy. */
  private static int copyOf(int fd) {
    int copy = Libc.duplicate(fd);
    assertTrue(copy >= 0);
    return copy;
  }
}
