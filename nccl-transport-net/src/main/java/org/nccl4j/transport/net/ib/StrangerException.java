package org.nccl4j.transport.net.ib;

import java.net.ProtocolException;

/** Whoever is at the other end of a control connection does not know the communicator's secret. */
final class StrangerException extends ProtocolException {
  private static final long serialVersionUID = 1L;

  StrangerException() {
    super("it does not know the communicator's secret");
  }
}
