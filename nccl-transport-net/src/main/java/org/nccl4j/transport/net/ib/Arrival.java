package org.nccl4j.transport.net.ib;

import java.io.IOException;

/** Somebody who connected to a listener and has to prove who it is. Never blocks. */
final class Arrival {
  private enum Stage {
    GREETING,
    PROVING,
    DESCRIBING
  }

  private final ControlLink link;
  private Stage stage = Stage.GREETING;
  private RemoteEnd end;

  Arrival(ControlLink link) {
    this.link = link;
    link.sendNonce();
  }

  ControlLink link() {
    return link;
  }

  /** Whether it has proved that it knows the secret. */
  boolean hasProved() {
    return stage == Stage.DESCRIBING;
  }

  /** What it told, once it has proved who it is; until then null. */
  RemoteEnd end() {
    return end;
  }

  /**
   * Takes the next steps and says whether it has proved that it knows the secret, and described its
   * end.
   *
   * @throws IOException if it does not, or has gone
   */
  boolean poll() throws IOException {
    if (stage == Stage.GREETING && link.flush() && link.receiveNonce()) {
      stage = Stage.PROVING;
    }
    if (stage == Stage.PROVING && link.receiveProof()) {
      link.sendProof();
      stage = Stage.DESCRIBING;
    }
    if (stage == Stage.DESCRIBING && end == null && link.flush()) {
      end = link.receiveEnd();
    }
    return end != null;
  }
}
