package org.nccl4j.device.shm;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HexFormat;
import java.util.Set;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.os.KernelRandom;
import org.nccl4j.device.os.ThisProcess;

/**
 * The directory in which this user's processes have their sockets for as long as they wait for
 * something. Nobody else may look into it.
 *
 * <p>A socket is bound under a name that ends in {@code .new} and renamed once it is ready; so a
 * {@code .sock} to which nobody answers is always one whose process has ended, whatever processes
 * can be seen from this container, and is removed by the next process.
 */
final class SocketDirectory {
  private static final Set<PosixFilePermission> PRIVATE =
      PosixFilePermissions.fromString("rwx------");
  private static final Set<PosixFilePermission> SOCKET =
      PosixFilePermissions.fromString("rw-------");
  private static final Path SHARED_MEMORY = Path.of("/dev/shm");
  private static final String READY = ".sock";
  private static final String NEW = ".new";

  private final Path path;

  private SocketDirectory(Path path) {
    this.path = path;
  }

  /**
   * The directory of a user: in /dev/shm, which containers of one host can share, or in
   * java.io.tmpdir where /dev/shm cannot be used.
   */
  static Path of(long user) {
    String name = "nccl4j-" + user;
    Path shared = SHARED_MEMORY.resolve(name);
    return isUsable(shared, user) ? shared : Path.of(System.getProperty("java.io.tmpdir"), name);
  }

  private static boolean isUsable(Path path, long user) {
    try {
      return Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS) && owner(path) == user
          || Files.notExists(path, LinkOption.NOFOLLOW_LINKS) && Files.isWritable(path.getParent());
    } catch (IOException | UnsupportedOperationException e) {
      return false;
    }
  }

  /** The same text in processes whose directories of a user are the same one. */
  static String identity(long user) {
    Path parent = of(user).getParent();
    try {
      return "%s %s:%s"
          .formatted(
              parent,
              Files.getAttribute(parent, "unix:dev"),
              Files.getAttribute(parent, "unix:ino"));
    } catch (IOException | UnsupportedOperationException e) {
      return parent.toString();
    }
  }

  /**
   * Makes it where it is missing, makes sure that it is private, and removes what the dead left.
   */
  static SocketDirectory open(Path path) {
    try {
      create(path);
      checkOwner(path);
      if (!Files.getPosixFilePermissions(path, LinkOption.NOFOLLOW_LINKS).equals(PRIVATE)) {
        Files.setPosixFilePermissions(path, PRIVATE);
      }
      SocketDirectory directory = new SocketDirectory(path);
      directory.sweep();
      return directory;
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.UNIX_SOCKET,
          "the directory %s for this user's sockets cannot be used: %s"
              .formatted(path, IoErrorText.of(e)),
          "make its parent writable, or set -Djava.io.tmpdir to a directory that all ranks of this"
              + " machine can write to",
          e);
    }
  }

  private static void create(Path path) throws IOException {
    try {
      Files.createDirectory(path, PosixFilePermissions.asFileAttribute(PRIVATE));
    } catch (FileAlreadyExistsException e) {
      if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
        throw inTheWay(path, e);
      }
    }
  }

  /** A link is not followed: it could lead to a directory that other users read. */
  private static SystemErrorException inTheWay(Path path, IOException cause) {
    return new SystemErrorException(
        ErrorId.UNIX_SOCKET,
        "%s is %s and must be the directory for this user's sockets"
            .formatted(path, Files.isSymbolicLink(path) ? "a symbolic link" : "a file"),
        "remove it (its owner or root can), or set -Djava.io.tmpdir to a directory of your own, the"
            + " same for all ranks of this machine",
        cause);
  }

  /** Throws unless a file is there and belongs to this user. */
  static void checkOwner(Path path) throws IOException {
    long user = owner(path);
    if (user != Libc.userId()) {
      throw new SystemErrorException(
          ErrorId.UNIX_SOCKET,
          "%s belongs to user %d, not to this process's user %d"
              .formatted(path, user, Libc.userId()),
          "run all ranks of this machine as the same user; if they are, have user %d or root remove"
                  .formatted(user)
              + " it, or set -Djava.io.tmpdir to a directory of your own, the same for all ranks of"
              + " this machine");
    }
  }

  private static long owner(Path path) throws IOException {
    Number owner = (Number) Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS);
    return Integer.toUnsignedLong(owner.intValue());
  }

  /** Gives a socket a name of its own, which its user alone can send to. */
  Path bind(int socket) {
    String random = HexFormat.of().formatHex(KernelRandom.bytes(8));
    String name = ThisProcess.pid() + "-" + random;
    Path fresh = path.resolve(name + NEW);
    Path ready = path.resolve(name + READY);
    int errno = Libc.bind(socket, Datagram.at(fresh));
    if (errno != 0) {
      throw new SystemErrorException(
          ErrorId.UNIX_SOCKET,
          "a Unix socket cannot be bound to %s: %s".formatted(fresh, Libc.describe(errno)),
          "make the directory writable, or set -Djava.io.tmpdir to a directory of a local file"
              + " system");
    }
    try {
      Files.setPosixFilePermissions(fresh, SOCKET);
      Files.move(fresh, ready, StandardCopyOption.ATOMIC_MOVE);
      return ready;
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.UNIX_SOCKET,
          "the Unix socket %s cannot be configured: %s".formatted(ready, IoErrorText.of(e)),
          "set -Djava.io.tmpdir to a directory of a local file system",
          e);
    }
  }

  private void sweep() throws IOException {
    try (OwnedFd probe = new OwnedFd(Libc.datagramSocket());
        DirectoryStream<Path> files = Files.newDirectoryStream(path)) {
      for (Path file : files) {
        if (isLeft(probe.value(), file)) {
          remove(file);
        }
      }
    }
  }

  private static boolean isLeft(int probe, Path file) {
    String name = file.getFileName().toString();
    boolean ours = name.endsWith(READY) || (name.endsWith(NEW) && !isAlive(name));
    return ours && Libc.connect(probe, Datagram.at(file)) == Libc.ECONNREFUSED;
  }

  private static boolean isAlive(String name) {
    int dash = name.indexOf('-');
    try {
      return ProcessHandle.of(Long.parseLong(name.substring(0, Math.max(0, dash)))).isPresent();
    } catch (NumberFormatException e) {
      return true;
    }
  }

  /** Removes a file that may be gone already. */
  static void remove(Path file) throws IOException {
    try {
      Files.delete(file);
    } catch (NoSuchFileException e) {
      // Another process swept it first.
      return;
    }
  }
}
