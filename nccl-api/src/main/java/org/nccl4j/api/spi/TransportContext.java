package org.nccl4j.api.spi;

import java.util.List;
import java.util.Optional;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.ConnectionLayout;

/** What a transport is told about the communicator that it is opened for. */
public interface TransportContext {
  /** This rank. */
  int rank();

  /** All ranks, by rank, this one included. */
  List<PeerInfo> peers();

  /** This rank's device. */
  Device device();

  /** How large the two regions of each connection are and what lies where. */
  ConnectionLayout layout();

  /**
   * 16 bytes that all ranks of this communicator, and nobody else, know: for authenticating what a
   * transport opens.
   */
  byte[] secret();

  /**
   * The value of a setting, such as "NCCL_SHM_DISABLE", from the communicator's configuration, the
   * system properties, the environment or a configuration file, in this order.
   */
  Optional<String> setting(String name);
}
