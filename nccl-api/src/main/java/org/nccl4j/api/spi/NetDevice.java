package org.nccl4j.api.spi;

import java.util.List;
import java.util.Set;

/**
 * One device of a network. nccl4j reads its name, speed and kinds of memory. The topology finds a
 * card by its name; messages have the size of a slot or less.
 *
 * @param name such as "eth0" or "mlx5_0:1"; "mlx5_0:1+mlx5_0:2" where ports are merged
 * @param pciPath its place under /sys, such as "/sys/devices/pci0000:00/0000:00:04.0"; empty if it
 *     has none
 * @param guid the same for devices that are one piece of hardware
 * @param port number of the port, from 1
 * @param megabits speed in Mbit/s
 * @param latencyMicros one-way latency in microseconds, without the wire
 * @param pointers the kinds of memory that can be registered; HOST is always among them
 * @param maxReceives most receives in one group, at least 1
 * @param maxBytes most bytes of one message
 */
public record NetDevice(
    String name,
    String pciPath,
    long guid,
    int port,
    int megabits,
    double latencyMicros,
    Set<Pointers> pointers,
    int maxReceives,
    int maxBytes) {
  /** Kinds of memory of messages. */
  public enum Pointers {
    /** Memory of the processor. */
    HOST,
    /** Memory of a GPU, by its address (nvidia_peermem). */
    CUDA,
    /** Memory of a GPU, by a dma-buf file descriptor. */
    DMA_BUF
  }

  /** The names of the ports that are merged into it; its own name where none are. */
  public List<String> names() {
    return List.of(name.split("\\+"));
  }

  /** True if a name is that of the device, or of a port that is merged into it. */
  public boolean includes(String port) {
    return name.equals(port) || names().contains(port);
  }

  /** Copies the set. */
  public NetDevice {
    pointers = Set.copyOf(pointers);
  }
}
