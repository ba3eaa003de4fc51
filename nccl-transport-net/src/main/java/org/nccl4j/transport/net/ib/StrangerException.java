package org.nccl4j.transport.net.ib;

import java.io.IOException;

/** Whoever is at the other end of a control connection does not know the communicator's secret. */
final class StrangerException extends IOException {
  private static final long serialVersionUID = 1L;

  StrangerException() {
    super("the other end does not know the communicator's secret");
  }
}
