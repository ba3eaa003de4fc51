package org.nccl4j.transport.net.ib;

import java.io.IOException;

/** Somebody who connected to a listener and has to prove who it is. */
final class Arrival {
  private static final long PATIENCE_NANOS = 5_000_000_000L;

  private final ControlLink link;
  private final long since = System.nanoTime();
  private boolean greeted;
  private RemoteEnd end;

  Arrival(ControlLink link) {
    this.link = link;
    link.sendNonce();
  }

  ControlLink link() {
    return link;
  }

  /** What it told, once it has proved who it is. */
  RemoteEnd end() {
    return end;
  }

  /**
   * Takes the next step and says whether it has proved that it knows the secret.
   *
   * @throws IOException if it does not, or takes too long
   */
  boolean hasProved() throws IOException {
    if (!greeted) {
      greeted = link.flush() && link.receiveNonce();
    }
    if (greeted) {
      end = link.receiveEnd();
    }
    if (end == null && System.nanoTime() - since > PATIENCE_NANOS) {
      throw new IOException("it proved nothing within 5 s");
    }
    return end != null;
  }
}
