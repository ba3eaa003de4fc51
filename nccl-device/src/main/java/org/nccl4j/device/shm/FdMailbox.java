package org.nccl4j.device.shm;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;

/**
 * Passes file descriptors between processes of one user that share a secret. Each has a mailbox, a
 * Unix datagram socket with a path that the others are told; nothing here ever waits.
 *
 * <p>The path exists until {@link #close()}. If the process is killed before, the path is removed
 * when the next mailbox in the same directory is opened.
 *
 * <p>One thread at a time.
 */
public final class FdMailbox implements AutoCloseable {
  /** Most bytes of a key. */
  public static final int MAX_KEY = SealedKey.MAX_KEY;

  private static final System.Logger LOG = DebugLog.of("SHM");

  private final OwnedFd socket;
  private final Path path;
  private final byte[] secret;
  private boolean closed;

  private FdMailbox(OwnedFd socket, Path path, byte[] secret) {
    this.socket = socket;
    this.path = path;
    this.secret = secret;
  }

  /**
   * A mailbox in this user's private directory in /dev/shm, or in java.io.tmpdir where /dev/shm
   * cannot be used.
   *
   * @param secret what all that send to it know, and nobody else; at least 1 byte
   */
  public static FdMailbox open(byte[] secret) {
    return open(SocketDirectory.of(Libc.userId()), secret);
  }

  /**
   * Returns the same text in processes of one user and host whose mailboxes reach each other. Calls
   * nothing native.
   *
   * @param user this process's user
   */
  public static String reach(long user) {
    return SocketDirectory.identity(user);
  }

  /** A mailbox in a directory, made if need be, that no other user may look into. */
  static FdMailbox open(Path directory, byte[] secret) {
    SocketDirectory sockets = SocketDirectory.open(directory);
    OwnedFd socket = new OwnedFd(Libc.datagramSocket());
    try {
      return new FdMailbox(socket, sockets.bind(socket.value()), secret.clone());
    } catch (RuntimeException e) {
      socket.close();
      throw e;
    }
  }

  /** Returns the path that others send to. */
  public Path path() {
    return path;
  }

  /**
   * Sends a copy of a file descriptor to another mailbox, unless that is full.
   *
   * @param fd stays the caller's
   * @param destination the other mailbox's path
   * @param key what it is, at most {@link #MAX_KEY} bytes
   * @return whether it is on its way; if not, try again
   * @throws SystemErrorException if nobody listens there, or it cannot be reached from here
   */
  public boolean post(int fd, Path destination, byte[] key) {
    checkOpen();
    if (key.length > MAX_KEY) {
      throw new InvalidArgumentException(
          ErrorId.COUNT, "a key of %d bytes".formatted(key.length), "use at most " + MAX_KEY);
    }
    checkReachable(destination);
    byte[] payload = SealedKey.seal(secret, destination, key);
    int errno = Libc.send(socket.value(), Datagram.to(destination, payload, fd));
    return switch (errno) {
      case 0 -> true;
      case Libc.EAGAIN, Libc.EINTR, Libc.ENOBUFS, Libc.ENOMEM, Libc.ETOOMANYREFS -> false;
      default ->
          throw new SystemErrorException(
              ErrorId.UNIX_SOCKET,
              "a file descriptor cannot be passed to %s: %s"
                  .formatted(destination, Libc.describe(errno)),
              errno == Libc.ECONNREFUSED
                  ? "find out why the process that had this socket has ended"
                  : SHARE);
    };
  }

  /** Sends a key alone, as {@link #post}, with this mailbox's socket as the descriptor. */
  public boolean tell(Path destination, byte[] key) {
    return post(socket.value(), destination, key);
  }

  private static final String SHARE =
      "let the containers of both ranks share /dev/shm (docker run --ipc=host) and run as the same"
          + " user, or set NCCL_SHM_DISABLE=1";

  private static void checkReachable(Path destination) {
    try {
      SocketDirectory.checkOwner(destination);
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.UNIX_SOCKET,
          "the other rank's socket %s cannot be seen from this process: %s"
              .formatted(destination, e),
          SHARE,
          e);
    }
  }

  /**
   * Takes the next one out. Drops, with a warning in the log, what another user sent or what does
   * not prove knowledge of the secret.
   *
   * @throws SystemErrorException if one came that this process has no room for
   */
  public Optional<ReceivedFd> poll() {
    checkOpen();
    while (true) {
      Datagram datagram = Datagram.forReceiving();
      long bytes = Libc.receive(socket.value(), datagram);
      if (bytes == -Libc.EAGAIN || bytes == -Libc.EINTR) {
        return Optional.empty();
      }
      if (bytes < 0) {
        throw new SystemErrorException(
            ErrorId.UNIX_SOCKET,
            "receiving from %s failed: %s".formatted(path, Libc.describe((int) -bytes)),
            "report this defect");
      }
      Optional<ReceivedFd> received = accept(datagram, (int) bytes);
      if (received.isPresent()) {
        return received;
      }
    }
  }

  private Optional<ReceivedFd> accept(Datagram datagram, int bytes) {
    Datagram.Control control = datagram.control();
    String refusal = refusal(datagram, control);
    byte[] payload = datagram.payload(bytes);
    if (refusal == null && !SealedKey.isSealed(secret, path, payload)) {
      refusal = "it does not prove knowledge of the secret";
    }
    if (refusal == null && datagram.controlCut() && control.fds.isEmpty()) {
      throw new SystemErrorException(
          ErrorId.OPEN_FILES,
          "a file descriptor that was sent to %s could not be taken: too many open files"
              .formatted(path),
          "raise ulimit -n");
    }
    if (refusal == null && control.fds.size() == 1) {
      byte[] key = SealedKey.key(payload);
      return Optional.of(new ReceivedFd(control.fds.get(0), key, control.processId));
    }
    control.fds.forEach(Libc::close);
    LOG.log(
        System.Logger.Level.WARNING,
        "dropped a message to {0} from process {1}: {2}",
        path,
        Integer.toString(control.processId),
        refusal == null ? "it has " + control.fds.size() + " file descriptors" : refusal);
    return Optional.empty();
  }

  private static String refusal(Datagram datagram, Datagram.Control control) {
    if (control.userId != Libc.userId()) {
      return "its sender is user " + control.userId;
    }
    return datagram.payloadCut() ? "it is too long" : null;
  }

  private void checkOpen() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "the mailbox %s is used after close".formatted(path),
          "close it after its last use");
    }
  }

  /** Removes the path and closes the socket. Unread messages are dropped. Again does nothing. */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    Arrays.fill(secret, (byte) 0);
    socket.close();
    try {
      SocketDirectory.remove(path);
    } catch (IOException e) {
      LOG.log(System.Logger.Level.WARNING, "the socket {0} could not be removed: {1}", path, e);
    }
  }
}
