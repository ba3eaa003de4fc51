package org.nccl4j.device.shm;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.kenai.jffi.MemoryIO;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.SystemErrorException;

@Timeout(600)
final class FdMailboxTest {
  private static final MemoryIO MEMORY = MemoryIO.getInstance();
  private static final byte[] SECRET = "0123456789abcdef".getBytes(UTF_8);
  private static final byte[] KEY = {1, 2, 3};
  private static final long UNUSED_USER = 4_000_000_000L + ProcessHandle.current().pid() % 100_000;

  @TempDir private Path temporary;

  private Path directory() {
    return temporary.resolve("sockets");
  }

  @Test
  void passesADescriptorWithItsKeyAndSender() {
    try (FdMailbox a = FdMailbox.open(directory(), SECRET);
        FdMailbox b = FdMailbox.open(directory(), SECRET);
        SharedSegment segment = SharedSegment.create(4096)) {
      assertEquals(Optional.empty(), b.poll());
      assertTrue(a.post(segment.fd(), b.path(), KEY));
      ReceivedFd received = b.poll().orElseThrow();
      assertArrayEquals(KEY, received.key());
      assertEquals(ProcessHandle.current().pid(), received.processId());
      MEMORY.putInt(segment.address(), 99);
      try (MappedRegion mapped = SharedSegment.attach(received.fd(), 4096)) {
        assertEquals(99, MEMORY.getInt(mapped.address()));
      }
      assertEquals(Optional.empty(), b.poll());
    }
  }

  @Test
  void onlyTheUserCanReachTheSocket() throws IOException {
    try (FdMailbox mailbox = FdMailbox.open(directory(), SECRET)) {
      assertEquals("rw-------", permissions(mailbox.path()));
      assertEquals("rwx------", permissions(directory()));
    }
    assertEquals(List.of(), left());
  }

  @Test
  void aDirectoryThatWasOpenToOthersIsClosedToThem() throws IOException {
    Files.createDirectory(directory());
    Files.setPosixFilePermissions(directory(), PosixFilePermissions.fromString("rwxrwxrwx"));
    FdMailbox.open(directory(), SECRET).close();
    assertEquals("rwx------", permissions(directory()));
  }

  @Test
  void dropsWhatDoesNotKnowTheSecretAndClosesItsDescriptor() {
    try (FdMailbox a = FdMailbox.open(directory(), "another secret..".getBytes(UTF_8));
        FdMailbox b = FdMailbox.open(directory(), SECRET);
        SharedSegment segment = SharedSegment.create(4096)) {
      long before = openOf(segment);
      assertTrue(a.post(segment.fd(), b.path(), KEY));
      assertEquals(Optional.empty(), b.poll());
      assertEquals(before, openOf(segment));
    }
  }

  /** Descriptors of a segment that this process has open. */
  private static long openOf(SharedSegment segment) {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      Object key = fileKey(Path.of("/proc/self/fd", Integer.toString(segment.fd())));
      assertTrue(key != null);
      return all.filter(descriptor -> key.equals(fileKey(descriptor))).count();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  /** The file behind a descriptor; null if it has been closed. */
  private static Object fileKey(Path descriptor) {
    try {
      return Files.readAttributes(descriptor, BasicFileAttributes.class).fileKey();
    } catch (IOException e) {
      return null;
    }
  }

  @Test
  void aMessageForOneMailboxIsNotTakenByAnother() {
    try (FdMailbox b = FdMailbox.open(directory(), SECRET);
        SharedSegment segment = SharedSegment.create(4096);
        OwnedFd socket = new OwnedFd(Libc.datagramSocket())) {
      byte[] forSomebodyElse = SealedKey.seal(SECRET, Path.of("/x/y.sock"), KEY);
      assertEquals(
          0, Libc.send(socket.value(), Datagram.to(b.path(), forSomebodyElse, segment.fd())));
      assertEquals(Optional.empty(), b.poll());
      byte[] right = SealedKey.seal(SECRET, b.path(), KEY);
      assertEquals(0, Libc.send(socket.value(), Datagram.to(b.path(), right, segment.fd())));
      Libc.close(b.poll().orElseThrow().fd());
    }
  }

  @Test
  void aFullMailboxIsNotAnErrorAndLosesNothing() {
    try (FdMailbox a = FdMailbox.open(directory(), SECRET);
        FdMailbox b = FdMailbox.open(directory(), SECRET);
        SharedSegment segment = SharedSegment.create(4096)) {
      int posted = 0;
      while (a.post(segment.fd(), b.path(), new byte[] {(byte) posted})) {
        posted++;
        assertTrue(posted < 100_000, "the socket has no bound");
      }
      for (int i = 0; i < posted; i++) {
        ReceivedFd received = b.poll().orElseThrow();
        assertEquals((byte) i, received.key()[0]);
        Libc.close(received.fd());
      }
      assertEquals(Optional.empty(), b.poll());
    }
  }

  @Test
  void nobodyThereIsAClearError() {
    try (FdMailbox a = FdMailbox.open(directory(), SECRET);
        SharedSegment segment = SharedSegment.create(4096)) {
      Path nobody = directory().resolve("nobody.sock");
      SystemErrorException e =
          assertThrows(SystemErrorException.class, () -> a.post(segment.fd(), nobody, KEY));
      assertTrue(e.getMessage().contains("nobody.sock"), e.getMessage());
      assertTrue(e.getMessage().contains("NCCL_SHM_DISABLE=1"), e.getMessage());
    }
  }

  @Test
  void aLinkInPlaceOfTheDirectoryIsNotFollowed() throws IOException {
    Path elsewhere = Files.createDirectory(temporary.resolve("elsewhere"));
    Files.createSymbolicLink(directory(), elsewhere);
    assertSays(directory() + " is a symbolic link", "remove it", "java.io.tmpdir");
    Files.delete(elsewhere);
    assertSays(directory() + " is a symbolic link", "remove it", "java.io.tmpdir");
  }

  @Test
  void aFileInPlaceOfTheDirectoryIsNamed() throws IOException {
    Files.createFile(directory());
    assertSays(directory() + " is a file", "remove it", "java.io.tmpdir");
  }

  /** Only root can give a directory away; root's own are everybody's else. */
  @Test
  void aDirectoryOfAnotherUserIsNamed() throws IOException {
    Path others = Path.of("/");
    if (Libc.userId() == 0) {
      others = Files.createDirectory(directory());
      Files.setAttribute(others, "unix:uid", 12345);
    }
    Path path = others;
    SystemErrorException e =
        assertThrows(SystemErrorException.class, () -> FdMailbox.open(path, SECRET));
    assertTrue(e.problem().contains("belongs to user"), e.problem());
    assertTrue(e.getMessage().contains("or root remove it"), e.getMessage());
    assertTrue(e.getMessage().contains("java.io.tmpdir"), e.getMessage());
  }

  private void assertSays(String... texts) {
    SystemErrorException e =
        assertThrows(SystemErrorException.class, () -> FdMailbox.open(directory(), SECRET));
    for (String text : texts) {
      assertTrue(e.getMessage().contains(text), e.getMessage());
    }
  }

  @Test
  void aPathThatIsTooLongIsAClearError() {
    Path deep = temporary.resolve("x".repeat(100));
    SystemErrorException e =
        assertThrows(SystemErrorException.class, () -> FdMailbox.open(deep, SECRET));
    assertTrue(e.getMessage().contains("java.io.tmpdir"), e.getMessage());
  }

  @Test
  void anotherProcessSendsItsMemory() throws Exception {
    try (FdMailbox mailbox = FdMailbox.open(directory(), SECRET);
        ChildJvm child = new ChildJvm(Sender.class, mailbox.path().toString())) {
      assertEquals("posted", child.readLine());
      ReceivedFd received = mailbox.poll().orElseThrow();
      assertTrue(received.processId() != ProcessHandle.current().pid());
      try (MappedRegion mapped = SharedSegment.attach(received.fd(), 4096)) {
        assertEquals(1234, MEMORY.getInt(mapped.address()));
        child.kill();
        assertEquals(1234, MEMORY.getInt(mapped.address()), "memory outlives its first owner");
      }
    }
    FdMailbox.open(directory(), SECRET).close();
    assertEquals(List.of(), left());
  }

  @Test
  void whatAKilledProcessLeftIsRemovedByTheNextAndNothingElse() throws Exception {
    try (FdMailbox living = FdMailbox.open(directory(), SECRET)) {
      try (ChildJvm child = new ChildJvm(Sender.class, living.path().toString())) {
        assertEquals("posted", child.readLine());
        assertEquals(2, left().size());
        FdMailbox.open(directory(), SECRET).close();
        assertEquals(2, left().size(), "a living process keeps its socket");
        child.kill();
      }
      assertEquals(2, left().size(), "kill -9 leaves the socket's path");
      Path foreign = Files.writeString(directory().resolve("notes.txt"), "not ours");
      FdMailbox.open(directory(), SECRET).close();
      assertEquals(List.of(living.path().getFileName().toString(), "notes.txt"), left());
      Files.delete(foreign);
    }
    assertEquals(List.of(), left());
  }

  private static String permissions(Path path) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
  }

  private List<String> left() throws IOException {
    try (Stream<Path> files = Files.list(directory())) {
      return files.map(file -> file.getFileName().toString()).sorted().toList();
    }
  }

  /** Sends a page to a mailbox, from a mailbox of its own, and waits to be killed. */
  static final class Sender {
    private Sender() {}

    public static void main(String[] arguments) throws IOException {
      Path destination = Path.of(arguments[0]);
      FdMailbox mailbox = FdMailbox.open(destination.getParent(), SECRET);
      SharedSegment segment = SharedSegment.create(4096);
      MEMORY.putInt(segment.address(), 1234);
      boolean posted = mailbox.post(segment.fd(), destination, KEY);
      System.out.println(posted ? "posted" : "full");
      System.in.read();
      segment.close();
      mailbox.close();
    }
  }

  @Test
  void aDirectoryOfAnotherUserIsLeftAlone() throws IOException {
    long user = Libc.userId();
    assertEquals(Path.of("/dev/shm"), SocketDirectory.of(user).getParent());
    assertTrue(FdMailbox.reach(user).startsWith("/dev/shm "), FdMailbox.reach(user));
    Path taken = Files.createDirectory(Path.of("/dev/shm/nccl4j-" + UNUSED_USER));
    try {
      assertEquals(
          Path.of(System.getProperty("java.io.tmpdir")),
          SocketDirectory.of(UNUSED_USER).getParent());
    } finally {
      Files.delete(taken);
    }
  }
}
