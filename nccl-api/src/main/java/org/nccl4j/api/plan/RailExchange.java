package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.P2pWork;

/**
 * The sends and receives of one rank's all-to-alls by rails, in two steps. Ranks are numbered host
 * after host, so the parts for a host's ranks are next to each other in the send buffer.
 *
 * <p>In the first step the parts for each other host go in one message to the rank with this rank's
 * number there, into memory of this object; the ranks of a host exchange their own parts meanwhile.
 * In the second step they exchange what has come from other hosts.
 *
 * <p>Owner: the thread that plans; {@code bytes} by any.
 */
final class RailExchange {
  private static final long LEAST_MEMORY = 64 << 10;

  private final int host;
  private final int index;
  private final int hosts;
  private final int ranksAHost;
  private final Device device;

  /**
   * Plans name the one that was the last when they were made, so none is freed before the end. Each
   * is at least twice as large as the one before.
   */
  private final List<DeviceMemory> memories = new ArrayList<>();

  private volatile long bytes;

  /**
   * No memory yet.
   *
   * @param hosts each with as many ranks, numbered host after host
   * @param device of this rank
   */
  RailExchange(int rank, int hosts, int ranksAHost, Device device) {
    this.host = rank / ranksAHost;
    this.index = rank % ranksAHost;
    this.hosts = hosts;
    this.ranksAHost = ranksAHost;
    this.device = device;
  }

  /** Makes a send or receive in a buffer; null stands for the launch's own. */
  interface Maker {
    P2pWork make(boolean sends, int peer, DeviceMemory buffer, long offset, long bytes);
  }

  /** Ranks that this one exchanges messages with. */
  int peers() {
    return hosts + ranksAHost - 2;
  }

  /** Bytes of a message to another host. */
  long messageBytes(long part) {
    return ranksAHost * part;
  }

  /** Messages that a rank sends to other hosts, by rails or to each rank there. */
  int farMessages(boolean byRails) {
    return byRails ? hosts - 1 : (hosts - 1) * ranksAHost;
  }

  /**
   * The steps of an exchange.
   *
   * @param part bytes for each rank
   */
  List<List<P2pWork>> steps(long part, Maker maker) {
    long ofHost = ranksAHost * part;
    DeviceMemory arrived = memory((hosts - 1) * ofHost);
    List<P2pWork> first = new ArrayList<>();
    List<P2pWork> second = new ArrayList<>();
    for (int distance = 1; distance < hosts; distance++) {
      int to = (host + distance) % hosts;
      int from = (host - distance + hosts) % hosts;
      long at = (distance - 1) * ofHost;
      first.add(maker.make(true, to * ranksAHost + index, null, to * ofHost, ofHost));
      first.add(maker.make(false, from * ranksAHost + index, arrived, at, ofHost));
      addExchange(second, arrived, at, from * ofHost, part, maker);
    }
    addExchange(first, null, host * ofHost, host * ofHost, part, maker);
    return List.of(first, second);
  }

  /**
   * Adds an exchange of parts of one host's ranks among the ranks of this host.
   *
   * @param at where the parts that this rank gives begin in a buffer
   * @param into where those that it gets begin in the receive buffer
   */
  private void addExchange(
      List<P2pWork> works, DeviceMemory buffer, long at, long into, long part, Maker maker) {
    for (int distance = 0; distance < ranksAHost; distance++) {
      int to = (index + distance) % ranksAHost;
      int from = (index - distance + ranksAHost) % ranksAHost;
      int first = host * ranksAHost;
      works.add(maker.make(true, first + to, buffer, at + to * part, part));
      works.add(maker.make(false, first + from, null, into + from * part, part));
    }
  }

  private DeviceMemory memory(long needed) {
    if (memories.isEmpty() || last().size() < needed) {
      long size = Math.max(LEAST_MEMORY, Long.highestOneBit(needed - 1) << 1);
      memories.add(device.allocate(size));
      bytes = memories.stream().mapToLong(DeviceMemory::size).sum();
    }
    return last();
  }

  private DeviceMemory last() {
    return memories.get(memories.size() - 1);
  }

  /** Frees the memory, once no plan that names it runs or is launched again. */
  void close() {
    memories.forEach(DeviceMemory::close);
    memories.clear();
    bytes = 0;
  }

  /** Returns the bytes of the memory. */
  long bytes() {
    return bytes;
  }
}
