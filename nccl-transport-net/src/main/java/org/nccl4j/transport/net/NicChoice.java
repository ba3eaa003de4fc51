package org.nccl4j.transport.net;

import java.util.Optional;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.memory.EndMemory;
import org.nccl4j.transport.net.memory.GpuSlots;

/**
 * The path of a rank's ends to the network.
 *
 * @param net the network
 * @param device the number of the device in it
 * @param slots in the rank's GPU; null where they are to be the host's
 * @param shared whether another rank's kernels are to fill the slots
 */
record NicChoice(Net net, int device, GpuSlots slots, boolean shared) {
  NetDevice card() {
    return net.devices().get(device);
  }

  /**
   * Memory of the GPU for an end; empty where it has to be the host's.
   *
   * @param reads whether the card is to read it
   */
  Optional<EndMemory> memory(boolean reads, int channels) {
    return slots == null ? Optional.empty() : slots.end(card(), reads, shared, channels);
  }

  /** The same, with slots in the host's memory. */
  NicChoice withoutGpu() {
    return new NicChoice(net, device, null, shared);
  }

  /** The card does not take such memory after all. */
  void giveUp(boolean reads, NcclException cause) {
    slots.giveUp(card(), reads, cause);
  }

  /** Returns the choice in words. */
  String describe() {
    return slots == null ? card().name() : slots.describe(card());
  }
}
