package org.nccl4j.transport.net;

import org.nccl4j.api.spi.Connector;

/** An end of a connection, or a part of one. */
interface End extends Connector {
  /** Frees what it holds. Again does nothing. */
  void close();
}
