package org.nccl4j.transport.net;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.wire.FdExchange;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.transport.net.memory.SharedEnd;

/**
 * Hands memory of connections to other ranks of this host, and takes theirs. The mailbox that
 * memory comes to is open for as long as this rank may use it, by which others see that they are
 * still needed; that from which memory goes to others, until none of them needs this rank. One
 * thread at a time.
 *
 * <p>The number of a descriptor is twice its request's, plus its part.
 */
final class PxnMail implements AutoCloseable {
  private static final int PARTS = 2;

  private final byte[] secret;

  /** Messages that have come for requests, in the order of the parts, which is that of sending. */
  private final Map<Integer, List<FdExchange.Received>> arrived = new HashMap<>();

  private FdExchange inbox;
  private FdExchange outbox;
  private int requests;

  PxnMail(byte[] secret) {
    this.secret = secret;
  }

  private FdExchange inbox() {
    if (inbox == null) {
      inbox = FdExchange.open(secret);
    }
    return inbox;
  }

  private FdExchange outbox() {
    if (outbox == null) {
      outbox = FdExchange.open(secret);
    }
    return outbox;
  }

  /** Returns the path to which others send. */
  String path() {
    return inbox().path();
  }

  /** A number that no other request of this rank has; memory may then come for it. */
  int nextRequest() {
    int request = requests++;
    for (int part = 0; part < PARTS; part++) {
      inbox().expect(PARTS * request + part);
    }
    return request;
  }

  /**
   * Sends part of an end's memory; whether it is on its way.
   *
   * @throws org.nccl4j.device.SystemErrorException if the other rank has gone
   */
  boolean post(SharedEnd end, int part, PxnRequest request) {
    int fd = end.fds().get(part).value();
    return outbox().give(request.mailbox(), PARTS * request.number() + part, fd, end.note());
  }

  /** Returns the message for a request; empty until all parts have come. */
  Optional<SharedEnd> take(int request) {
    List<FdExchange.Received> parts = arrived.computeIfAbsent(request, none -> new ArrayList<>());
    while (parts.isEmpty() || parts.size() < SharedEnd.parts(parts.get(0).note())) {
      Optional<FdExchange.Received> next = inbox().take(PARTS * request + parts.size());
      if (next.isEmpty()) {
        return Optional.empty();
      }
      parts.add(next.get());
    }
    arrived.remove(request);
    List<OwnedFd> fds = parts.stream().map(part -> new OwnedFd(part.fd())).toList();
    return Optional.of(SharedEnd.of(parts.get(0).note(), fds));
  }

  /** True if a rank that gave a mailbox still has it open, and so may still send. */
  boolean isThere(String other) {
    return outbox().isOpen(other);
  }

  /** Uses no memory of others any more. */
  void leave() {
    arrived.values().stream().flatMap(List::stream).forEach(part -> new OwnedFd(part.fd()).close());
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
