package org.nccl4j.api.wire;

import java.net.ProtocolException;

/**
 * The end of a connection during its TLS handshake: the other side does not speak TLS, or the
 * connection broke.
 */
public final class UnfinishedTlsException extends ProtocolException {
  private static final long serialVersionUID = 1;

  /** The other side has closed the connection. */
  public UnfinishedTlsException() {
    super(
        "it closed the connection during the TLS handshake; it has no NCCL4J_TLS_CERT, which all"
            + " ranks have or none, or is too busy");
  }
}
