package org.nccl4j.transport.net.socket.link;

import java.io.IOException;

/** A message did not come as it was sent. */
final class DamagedMessageException extends IOException {
  private static final long serialVersionUID = 1;

  DamagedMessageException(String what) {
    super(what);
  }
}
