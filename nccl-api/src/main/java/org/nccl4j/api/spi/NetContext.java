package org.nccl4j.api.spi;

import java.util.Optional;

/** What a network is told about the communicator that it is opened for. */
public interface NetContext {
  /** This rank. */
  int rank();

  /**
   * 16 bytes that all ranks of this communicator, and nobody else, know: for authenticating what a
   * network opens.
   */
  byte[] secret();

  /**
   * The value of a setting, such as "NCCL_SOCKET_IFNAME", from the communicator's configuration,
   * the system properties, the environment or a configuration file, in this order.
   */
  Optional<String> setting(String name);
}
