package org.nccl4j.api.wire;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.FdMailbox;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.ReceivedFd;
import org.nccl4j.device.support.Patience;

/**
 * Sends file descriptors to other processes of this host and receives theirs, each once, through a
 * mailbox that exists while this is open. A number, usually the sender's rank, identifies a
 * descriptor; only expected descriptors are accepted. Only {@link #swap} waits. One thread at a
 * time.
 *
 * <p>Format of a message's key: kind (1; 0 a descriptor, 1 "I have closed", 2 "are you there"),
 * number (4), note. The descriptor that comes with the last two means nothing.
 */
public final class FdExchange implements AutoCloseable {
  /**
   * A received descriptor; the code that takes it closes it.
   *
   * @param note of the sender
   */
  public record Received(int fd, byte[] note) {}

  /**
   * The rest of a swap that ran out of time.
   *
   * @param givers numbers of descriptors that have not come
   * @param takers numbers of mailboxes that take nothing
   */
  public record Missing(Set<Integer> givers, Set<Integer> takers) {
    /** True if all is done. */
    public boolean isEmpty() {
      return givers.isEmpty() && takers.isEmpty();
    }
  }

  private static final byte DESCRIPTOR = 0;
  private static final byte CLOSED = 1;
  private static final byte PROBE = 2;
  private static final int HEADER_BYTES = 1 + Integer.BYTES;
  private static final byte[] NOTHING = {};
  private static final long POLL_NANOS = 50_000;

  private final FdMailbox mailbox;
  private final Set<Integer> expected = new HashSet<>();
  private final Map<Integer, Received> arrived = new HashMap<>();
  private final Set<Integer> closed = new HashSet<>();

  private FdExchange(FdMailbox mailbox) {
    this.mailbox = mailbox;
  }

  /**
   * A new mailbox.
   *
   * @param secret that only the exchanging processes know
   */
  public static FdExchange open(byte[] secret) {
    return new FdExchange(FdMailbox.open(secret));
  }

  /** Returns the path to which others send. */
  public String path() {
    return mailbox.path().toString();
  }

  /** Lets a descriptor come, once. */
  public void expect(int number) {
    expected.add(number);
  }

  /**
   * Sends a copy of a descriptor.
   *
   * @param to the other's {@link #path}
   * @param number of the descriptor, which the other expects
   * @return whether it is on its way; if not, try again
   * @throws SystemErrorException if the other process has ended, or cannot be reached
   */
  public boolean give(String to, int number, int fd) {
    return give(to, number, fd, NOTHING);
  }

  /** Gives a descriptor as the other method does, with a note of at most 59 bytes. */
  public boolean give(String to, int number, int fd, byte[] note) {
    return mailbox.post(fd, path(to), key(DESCRIPTOR, number, note));
  }

  /**
   * A descriptor that was expected, once it has come.
   *
   * @throws RemoteException if any has come that was not expected
   */
  public Optional<Received> take(int number) {
    receive();
    return Optional.ofNullable(arrived.remove(number));
  }

  /** Swaps as the other method does, and looks for no failure meanwhile. */
  public Missing swap(
      int number, int fd, Map<Integer, String> takers, Set<Integer> givers, long endNanos) {
    return swap(number, fd, takers, givers, endNanos, () -> {});
  }

  /**
   * Gives a descriptor to some and awaits those of others, which can then be taken.
   *
   * @param number of this process's descriptor
   * @param takers mailboxes, by the numbers of their owners
   * @param givers numbers of the descriptors that are to come
   * @param endNanos when to give up, of {@link System#nanoTime}
   * @param check runs again and again; ends the wait by what it throws
   * @return what is left undone by then
   */
  public Missing swap(
      int number,
      int fd,
      Map<Integer, String> takers,
      Set<Integer> givers,
      long endNanos,
      Runnable check) {
    Set<Integer> unsent = new TreeSet<>(takers.keySet());
    expected.addAll(givers);
    while (true) {
      check.run();
      unsent.removeIf(taker -> give(takers.get(taker), number, fd));
      receive();
      Set<Integer> awaited = new TreeSet<>(givers);
      awaited.removeAll(arrived.keySet());
      Missing missing = new Missing(awaited, unsent);
      if (missing.isEmpty() || System.nanoTime() - endNanos > 0) {
        return missing;
      }
      Patience.sleep(POLL_NANOS);
    }
  }

  /**
   * Tells another that this one has closed what it had been given.
   *
   * @param number of this one
   * @return whether that is on its way, or the other has gone
   */
  public boolean tellClosed(String to, int number) {
    try {
      return mailbox.tell(path(to), key(CLOSED, number, NOTHING));
    } catch (SystemErrorException e) {
      return true;
    }
  }

  /** The numbers of all processes that have reported that they closed their descriptors. */
  public Set<Integer> closed() {
    receive();
    return Set.copyOf(closed);
  }

  /** True if another's mailbox is open. */
  public boolean isOpen(String other) {
    Path path = path(other);
    if (Files.notExists(path)) {
      return false;
    }
    try {
      mailbox.tell(path, key(PROBE, 0, NOTHING));
      return true;
    } catch (SystemErrorException e) {
      return false;
    }
  }

  private void receive() {
    Optional<ReceivedFd> next = mailbox.poll();
    while (next.isPresent()) {
      accept(next.get());
      next = mailbox.poll();
    }
  }

  private void accept(ReceivedFd received) {
    ByteBuffer key = ByteBuffer.wrap(received.key());
    boolean known = key.remaining() >= HEADER_BYTES;
    byte kind = known ? key.get() : DESCRIPTOR;
    int number = known ? key.getInt() : -1;
    if (kind == DESCRIPTOR && expected.remove(number)) {
      byte[] note = Arrays.copyOfRange(received.key(), HEADER_BYTES, received.key().length);
      arrived.put(number, new Received(received.fd(), note));
      return;
    }
    new OwnedFd(received.fd()).close();
    if (kind == CLOSED) {
      closed.add(number);
    } else if (kind != PROBE) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d sent memory that was not requested, or sent it twice".formatted(number),
          "run the same version of nccl4j on all ranks, and no two ranks with the same number");
    }
  }

  private static byte[] key(byte kind, int number, byte[] note) {
    return ByteBuffer.allocate(HEADER_BYTES + note.length)
        .put(kind)
        .putInt(number)
        .put(note)
        .array();
  }

  private static Path path(String text) {
    try {
      return Path.of(text);
    } catch (InvalidPathException e) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "another rank sent an invalid path of a socket: " + e.getMessage(),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  /** Closes the mailbox, and what has come and was not taken. */
  @Override
  public void close() {
    arrived.values().forEach(each -> new OwnedFd(each.fd()).close());
    arrived.clear();
    mailbox.close();
  }
}
