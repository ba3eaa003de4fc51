package org.nccl4j.transport.net;

import java.util.Optional;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.memory.EndMemory;
import org.nccl4j.transport.net.memory.GpuBuffers;
import org.nccl4j.transport.net.memory.GpuSlots;

/**
 * The path of a rank's ends to the network.
 *
 * @param network its name
 * @param net the network
 * @param device the number of the device in it
 * @param slots in the rank's GPU; null where they are to be the host's
 * @param shared whether another rank's kernels are to fill the slots
 * @param onHost whether slots are in the host's memory wherever the rank's device is
 */
record NicChoice(
    String network, Net net, int device, GpuSlots slots, boolean shared, boolean onHost) {
  /** A path whose slots are in the GPU where the NIC reaches that. */
  NicChoice(String network, Net net, int device, GpuSlots slots, boolean shared) {
    this(network, net, device, slots, shared, /* onHost= */ false);
  }

  NetDevice card() {
    return net.devices().get(device);
  }

  /**
   * Memory of the GPU for an end; empty where it has to be the host's.
   *
   * @param reads whether the card is to read it
   */
  Optional<EndMemory> memory(boolean reads, int channels) {
    return slots == null || onHost ? Optional.empty() : slots.end(card(), reads, shared, channels);
  }

  /**
   * The NIC's access to users' memory of the GPU; empty where there is none.
   *
   * @param reads whether the card is to read it
   */
  Optional<GpuBuffers> buffers(boolean reads) {
    return slots == null ? Optional.empty() : slots.buffers(card(), reads);
  }

  /** The same, with slots in the host's memory. */
  NicChoice withHostSlots() {
    return new NicChoice(network, net, device, slots, shared, /* onHost= */ true);
  }

  /** The card does not take such memory after all. */
  void giveUp(boolean reads, NcclException cause) {
    slots.giveUp(card(), reads, cause);
  }

  /** Returns the names of the network and of its device. */
  String via() {
    return network + "/" + card().name();
  }

  /** Returns the choice in words. */
  String describe() {
    return slots == null ? card().name() : slots.describe(card());
  }
}
