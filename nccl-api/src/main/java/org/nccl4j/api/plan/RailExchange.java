package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.P2pWork;

/**
 * The sends and receives of one rank's all-to-alls by rails, in two steps or three.
 *
 * <p>The parts for each other host go in one message to a rank with this rank's number there, into
 * memory of this object; the ranks of a host exchange their own parts meanwhile. In the next step
 * they exchange what has come from other hosts. If the ranks of a host are not numbered one after
 * the other, the parts for them are not next to each other in the send buffer; then a step before
 * copies them together. A host with fewer ranks than another gets messages of several ranks of that
 * one on one rank.
 *
 * <p>Owner: the thread that plans; {@code bytes} by any.
 */
final class RailExchange {
  private static final long LEAST_MEMORY = 64 << 10;

  private final int rank;

  /** The ranks of each host, ascending; the same on all ranks. */
  private final List<List<Integer>> hosts;

  private final int host;

  /** The ranks of this rank's host. */
  private final List<Integer> locals;

  /** This rank's number among them. */
  private final int index;

  private final int mostRanks;
  private final int fewestRanks;
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
   * @param hosts the ranks of each, ascending
   * @param device of this rank
   */
  RailExchange(int rank, List<List<Integer>> hosts, Device device) {
    this.rank = rank;
    this.hosts = hosts;
    this.locals = hosts.stream().filter(each -> each.contains(rank)).findFirst().orElseThrow();
    this.host = hosts.indexOf(locals);
    this.index = locals.indexOf(rank);
    this.mostRanks = hosts.stream().mapToInt(List::size).max().orElseThrow();
    this.fewestRanks = hosts.stream().mapToInt(List::size).min().orElseThrow();
    this.device = device;
  }

  /** Makes a send or receive in a buffer; null stands for the launch's own. */
  interface Maker {
    P2pWork make(boolean sends, int peer, DeviceMemory buffer, long offset, long bytes);
  }

  /**
   * Messages of a step that are under way at once at the rank with most, and the copy of its own
   * part; the same on all ranks.
   */
  int messages() {
    int far = (hosts.size() - 1) * ((mostRanks + fewestRanks - 1) / fewestRanks);
    return 2 * (far + mostRanks - 1) + 1;
  }

  /** Messages that this rank sends to other hosts, by rails or to each rank there. */
  int farMessages(boolean byRails) {
    int ranks = hosts.stream().mapToInt(List::size).sum();
    return byRails ? hosts.size() - 1 : ranks - locals.size();
  }

  /**
   * The steps of an exchange.
   *
   * @param part bytes for each rank
   */
  List<List<P2pWork>> steps(long part, Maker maker) {
    long arriving = 0;
    long packed = 0;
    for (int distance = 1; distance < hosts.size(); distance++) {
      arriving += arrivals(at(distance)) * locals.size() * part;
      packed += isTogether(at(distance)) ? 0 : at(distance).size() * part;
    }
    DeviceMemory memory = memory(arriving + packed);
    List<P2pWork> pack = new ArrayList<>();
    List<P2pWork> first = new ArrayList<>();
    List<P2pWork> second = new ArrayList<>();
    long arrived = 0;
    long next = arriving;
    for (int distance = 1; distance < hosts.size(); distance++) {
      List<Integer> to = at(distance);
      List<Integer> from = at(-distance);
      boolean together = isTogether(to);
      long ofHost = to.size() * part;
      first.add(
          maker.make(
              true,
              to.get(index % to.size()),
              together ? null : memory,
              together ? to.get(0) * part : next,
              ofHost));
      if (!together) {
        addCopies(pack, to, memory, next, part, maker);
        next += ofHost;
      }
      addDelivery(second, from, memory, arrived, part, maker);
      for (int source = index; source < from.size(); source += locals.size()) {
        first.add(maker.make(false, from.get(source), memory, arrived, locals.size() * part));
        arrived += locals.size() * part;
      }
    }
    addExchange(first, part, maker);
    return Stream.of(pack, first, second).filter(step -> !step.isEmpty()).toList();
  }

  private List<Integer> at(int distance) {
    return hosts.get(Math.floorMod(host + distance, hosts.size()));
  }

  /** Messages that this rank gets from the ranks of another host. */
  private int arrivals(List<Integer> from) {
    return (from.size() - index + locals.size() - 1) / locals.size();
  }

  /** True if the parts for the ranks of a host are next to each other in the send buffer. */
  private static boolean isTogether(List<Integer> ranks) {
    return Collections.max(ranks) - Collections.min(ranks) == ranks.size() - 1;
  }

  /** Adds copies of the parts for a host's ranks from the send buffer, one after the other. */
  private void addCopies(
      List<P2pWork> works, List<Integer> to, DeviceMemory memory, long at, long part, Maker maker) {
    for (int i = 0; i < to.size(); i++) {
      works.add(maker.make(true, rank, null, to.get(i) * part, part));
      works.add(maker.make(false, rank, memory, at + i * part, part));
    }
  }

  /** Adds an exchange of the parts that this host's ranks have for each other. */
  private void addExchange(List<P2pWork> works, long part, Maker maker) {
    for (int distance = 0; distance < locals.size(); distance++) {
      int to = locals.get((index + distance) % locals.size());
      int from = locals.get(Math.floorMod(index - distance, locals.size()));
      works.add(maker.make(true, to, null, to * part, part));
      works.add(maker.make(false, from, null, from * part, part));
    }
  }

  /**
   * Adds an exchange among this host's ranks of what has come from another host. Messages of the
   * rank to itself alternate, a send and its receive.
   *
   * @param at where this rank's messages from there begin in the memory
   */
  private void addDelivery(
      List<P2pWork> works,
      List<Integer> origins,
      DeviceMemory memory,
      long at,
      long part,
      Maker maker) {
    int n = locals.size();
    for (int distance = 0; distance < n; distance++) {
      int to = (index + distance) % n;
      int from = Math.floorMod(index - distance, n);
      for (int message = 0; message * n < origins.size(); message++) {
        if (message * n + index < origins.size()) {
          long offset = at + (message * n + to) * part;
          works.add(maker.make(true, locals.get(to), memory, offset, part));
        }
        if (message * n + from < origins.size()) {
          long into = origins.get(message * n + from) * part;
          works.add(maker.make(false, locals.get(from), null, into, part));
        }
      }
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
