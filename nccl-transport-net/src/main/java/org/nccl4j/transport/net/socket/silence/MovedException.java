package org.nccl4j.transport.net.socket.silence;

import java.io.IOException;

/** The reason to leave a socket that has not broken for another that is there already. */
public final class MovedException extends IOException {
  private static final long serialVersionUID = 1;

  public MovedException(String reason) {
    super(reason);
  }
}
