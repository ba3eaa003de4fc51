package org.nccl4j.api.spi;

import java.io.IOException;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;

/** The communicator's facts for a network. */
public interface NetContext extends SettingValues {
  /** This rank. */
  int rank();

  /** Ranks of the communicator; 1 if unknown. */
  default int ranks() {
    return 1;
  }

  /**
   * True if one thread moves the messages of all connections and channels of this rank, as for a
   * GPU. A network may then be faster with its own threads.
   */
  default boolean sharesThread() {
    return false;
  }

  /**
   * 16 bytes that only the ranks of this communicator know, to authenticate a network's
   * connections.
   */
  byte[] secret();

  /**
   * Returns the channel of a connection that carries only control messages of its ends: TLS if the
   * user has set certificates (NCCL4J_TLS_CERT), else the connection itself. Reads and writes never
   * wait, and perform the handshake; a write may accept no bytes until the other side has answered.
   *
   * @param connected in non-blocking mode; nothing has been read or written
   * @param dialed true if this side opened it
   * @throws IOException if TLS cannot begin; the connection is left open
   */
  default ByteChannel controlChannel(SocketChannel connected, boolean dialed) throws IOException {
    return connected;
  }
}
