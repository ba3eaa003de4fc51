package org.nccl4j.api.spi;

import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.ConnectionLayout;

/** What a transport is told about the communicator that it is opened for. */
public interface TransportContext extends NetContext {
  /** All ranks, by rank, this one included. */
  List<PeerInfo> peers();

  /** This rank's device. */
  Device device();

  /** How large the two regions of each connection are and what lies where. */
  ConnectionLayout layout();

  /** The networks that can be used on this rank, best first. */
  List<NetProvider> nets();
}
