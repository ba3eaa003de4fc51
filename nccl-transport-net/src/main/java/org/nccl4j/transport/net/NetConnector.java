package org.nccl4j.transport.net;

import org.nccl4j.api.spi.Connector;

/** A connector that the transport closes with itself. */
interface NetConnector extends Connector {
  /** Frees what it holds. Again does nothing. */
  void close();
}
