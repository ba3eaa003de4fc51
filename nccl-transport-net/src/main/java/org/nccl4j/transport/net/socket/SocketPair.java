package org.nccl4j.transport.net.socket;

import java.util.concurrent.atomic.AtomicInteger;
import org.nccl4j.transport.net.socket.link.SocketLink;
import org.nccl4j.transport.net.socket.link.SocketSource;

/**
 * One socket for both directions between two ranks, so that acknowledgements travel with data that
 * go the other way: alone, each costs as much as a small message. It is closed when both of this
 * rank's ends have done with it.
 */
final class SocketPair implements SocketSource {
  private final SocketSource source;
  private final AtomicInteger ends = new AtomicInteger(2);

  /** The socket that a source gives, for a sender and a receiver. */
  SocketPair(SocketSource source) {
    this.source = source;
  }

  @Override
  public SocketLink poll() {
    return source.poll();
  }

  @Override
  public void close() {
    if (ends.decrementAndGet() == 0) {
      source.close();
    }
  }

  @Override
  public String toString() {
    return source.toString();
  }
}
