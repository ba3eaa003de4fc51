package org.nccl4j.transport.net;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.FdMailbox;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.ReceivedFd;

/**
 * How ranks of a host hand each other memory of connections. The box that memory comes to is open
 * for as long as the rank may use it, by which others see that they are still needed; that from
 * which it goes to others, until none of them needs this rank. One thread at a time.
 */
final class RelayMail implements AutoCloseable {
  private static final byte[] ARE_YOU_THERE = new byte[1];

  private final byte[] secret;
  private final Map<Integer, Parts> arrived = new HashMap<>();
  private FdMailbox inbox;
  private FdMailbox outbox;
  private int requests;

  RelayMail(byte[] secret) {
    this.secret = secret;
  }

  /** Descriptors of one request, by part, and a key of them. */
  private record Parts(byte[] key, Map<Integer, OwnedFd> fds) {}

  private FdMailbox inbox() {
    if (inbox == null) {
      inbox = FdMailbox.open(secret);
    }
    return inbox;
  }

  private FdMailbox outbox() {
    if (outbox == null) {
      outbox = FdMailbox.open(secret);
    }
    return outbox;
  }

  /** Where others are to send to. */
  Path path() {
    return inbox().path();
  }

  /** A number that no other request of this rank has. */
  int nextRequest() {
    return requests++;
  }

  /**
   * Sends part of an end's memory; whether it is on its way.
   *
   * @throws SystemErrorException if the other rank has gone
   */
  boolean post(SharedEnd end, int part, RelayRequest request) {
    int fd = end.fds().get(part).value();
    return outbox().post(fd, request.mailbox(), end.key(request.number(), part));
  }

  /** What has come for a request; empty until all of it has. */
  Optional<SharedEnd> take(int request) {
    Optional<ReceivedFd> received = inbox().poll();
    while (received.isPresent()) {
      accept(received.get());
      received = inbox().poll();
    }
    Parts parts = arrived.get(request);
    if (parts == null || parts.fds.size() < SharedEnd.parts(parts.key)) {
      return Optional.empty();
    }
    arrived.remove(request);
    return Optional.of(SharedEnd.of(parts.key, List.copyOf(parts.fds.values())));
  }

  private void accept(ReceivedFd received) {
    OwnedFd fd = new OwnedFd(received.fd());
    int request = SharedEnd.request(received.key());
    if (received.key().length == ARE_YOU_THERE.length) {
      fd.close();
      return;
    }
    if (request < 0 || request >= requests) {
      fd.close();
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "memory came from process %d that was not asked for".formatted(received.processId()),
          "run the same version of nccl4j on all ranks");
    }
    Parts parts =
        arrived.computeIfAbsent(request, none -> new Parts(received.key(), new TreeMap<>()));
    OwnedFd before = parts.fds.put(SharedEnd.part(received.key()), fd);
    if (before != null) {
      before.close();
    }
  }

  /** Whether a rank that gave a mailbox still has it open, and so may still send. */
  boolean isThere(Path other) {
    if (Files.notExists(other)) {
      return false;
    }
    try {
      outbox().tell(other, ARE_YOU_THERE);
      return true;
    } catch (SystemErrorException e) {
      return false;
    }
  }

  /** Uses no memory of others any more. */
  void leave() {
    List<OwnedFd> unused = new ArrayList<>();
    arrived.values().forEach(parts -> unused.addAll(parts.fds.values()));
    unused.forEach(OwnedFd::close);
    arrived.clear();
    if (inbox != null) {
      inbox.close();
      inbox = null;
    }
  }

  @Override
  public void close() {
    leave();
    if (outbox != null) {
      outbox.close();
      outbox = null;
    }
  }
}
