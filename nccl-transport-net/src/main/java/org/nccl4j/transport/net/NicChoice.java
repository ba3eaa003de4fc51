package org.nccl4j.transport.net;

import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.memory.EndMemory;
import org.nccl4j.transport.net.memory.GpuBuffers;
import org.nccl4j.transport.net.memory.GpuSlots;
import org.nccl4j.transport.net.memory.LineMark;

/**
 * The path of a rank's ends to the network. Channels take turns with the devices, by the speeds of
 * the turns.
 *
 * @param network its name
 * @param net the network
 * @param turns those of its devices, the first channel's first
 * @param slots in the rank's GPU; null where they are to be the host's
 * @param shared whether another rank's kernels are to fill the slots
 * @param onHost whether slots are in the host's memory wherever the rank's device is
 */
record NicChoice(
    String network, Net net, List<Turn> turns, GpuSlots slots, boolean shared, boolean onHost) {
  /** Copies the list. */
  NicChoice {
    turns = List.copyOf(turns);
  }

  /**
   * A device's turns among channels.
   *
   * @param device its number in the network
   * @param speed of the turns, relative to others'; may be 0 where it is not known
   */
  record Turn(int device, float speed) {}

  /** A path by one device, whose slots are in the GPU where the NIC reaches that. */
  NicChoice(String network, Net net, int device, GpuSlots slots, boolean shared) {
    this(network, net, List.of(new Turn(device, 1)), slots, shared, /* onHost= */ false);
  }

  /** Returns the number of a channel's device: of all turns, the one that is furthest behind. */
  int device(int channel) {
    int[] channels = new int[turns.size()];
    int next = 0;
    for (int number = 0; number <= channel; number++) {
      next = 0;
      for (int turn = 1; turn < channels.length; turn++) {
        if (load(channels, turn) < load(channels, next)) {
          next = turn;
        }
      }
      channels[next]++;
    }
    return turns.get(next).device;
  }

  /** The time of a turn's device with a channel more, relative to others'. */
  private double load(int[] channels, int turn) {
    float speed = turns.get(turn).speed;
    return (channels[turn] + 1.0) / (speed > 0 ? speed : 1);
  }

  private List<NetDevice> cards() {
    return turns.stream().map(Turn::device).distinct().map(net.devices()::get).toList();
  }

  /** Returns the names of the devices with + between them. */
  String names() {
    return cards().stream().map(NetDevice::name).collect(Collectors.joining("+"));
  }

  /**
   * Memory of the GPU for an end; empty where it has to be the host's.
   *
   * @param reads whether the card is to read it
   * @param lines mark of messages in LL
   */
  Optional<EndMemory> memory(boolean reads, int channels, LineMark lines) {
    return slots == null || onHost
        ? Optional.empty()
        : slots.end(cards(), reads, shared, channels, lines);
  }

  /**
   * The NIC's access to users' memory of the GPU; empty where there is none.
   *
   * @param reads whether the card is to read it
   */
  Optional<GpuBuffers> buffers(boolean reads) {
    return slots == null ? Optional.empty() : slots.buffers(cards(), reads);
  }

  /** The same by the first device alone, with slots in the host's memory. */
  NicChoice withHostSlots() {
    return new NicChoice(network, net, turns.subList(0, 1), slots, shared, /* onHost= */ true);
  }

  /** The card does not take such memory after all. */
  void giveUp(boolean reads, NcclException cause) {
    slots.giveUp(cards(), reads, cause);
  }

  /** Returns the names of the network and of its devices. */
  String via() {
    return network + "/" + names();
  }

  /** Returns the choice in words. */
  String describe() {
    return slots == null ? names() : slots.describe(cards());
  }
}
