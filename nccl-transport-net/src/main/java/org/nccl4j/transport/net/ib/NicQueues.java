package org.nccl4j.transport.net.ib;

import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.ib.control.RemotePort;
import org.nccl4j.transport.net.ib.control.RemoteQpInfo;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;

/**
 * The queue pairs of one end of a connection at one NIC, whose ports they take in turn. Queue pair
 * i is at port (i mod width) mod ports at each end, so that each round of as many queue pairs as
 * the width uses all ports of both. Owned by the thread that has the connection's turn.
 */
final class NicQueues implements AutoCloseable {
  /** Messages are cut at multiples of this many bytes. */
  private static final int UNIT = 128;

  /**
   * The size of the queues.
   *
   * @param pairs number of queue pairs
   * @param width number of queue pairs over which a message goes that is not split further
   * @param sends most sends under way on each
   * @param receives most receives under way on each
   * @param entries of the completion queue of a port
   */
  record Size(int pairs, int width, int sends, int receives, int entries) {}

  final LocalNic local;
  final PortQueues[] ports;
  final QueuePair[] pairs;

  private final ClearToSend table;
  private final int width;

  /** The place of each queue pair's port, at this end and at the other. */
  private final int[] portOf;

  private int[] remotePortOf;
  private int[] remoteTableKeys;
  private RemoteQpInfo remote;

  /** The sum of the speeds of the queue pairs of a round up to each, and itself. */
  private long[] speeds;

  /** The places in a round of the queue pairs that are the fastest. */
  private int[] fastest;

  /** Opens the devices and makes the queues. */
  NicQueues(IbSettings settings, LocalNic local, Size size, ClearToSend table) {
    this.local = local;
    this.table = table;
    width = size.width();
    pairs = new QueuePair[size.pairs()];
    ports = new PortQueues[Math.min(local.ports().size(), width)];
    portOf = places(ports.length);
    int[] counts = new int[ports.length];
    for (int port : portOf) {
      counts[port]++;
    }
    boolean made = false;
    try {
      for (int p = 0; p < ports.length; p++) {
        ports[p] = new PortQueues(settings, local.ports().get(p), counts[p], size, table);
      }
      made = true;
    } finally {
      if (!made) {
        close();
      }
    }
    int[] used = new int[ports.length];
    for (int i = 0; i < pairs.length; i++) {
      pairs[i] = ports[portOf[i]].pairs[used[portOf[i]]++];
    }
  }

  /** The places of the queue pairs among so many ports. */
  private int[] places(int count) {
    return IntStream.range(0, pairs.length).map(i -> i % width % count).toArray();
  }

  /** Returns the place of a queue pair's port. */
  @HotPath
  int port(int pair) {
    return portOf[pair];
  }

  /** True if a queue pair's port is RoCE, not InfiniBand. */
  @HotPath
  boolean isEthernet(int pair) {
    return ports[portOf[pair]].local.port().ethernet();
  }

  /** Returns the place of the other end's port of a queue pair. */
  @HotPath
  int remotePort(int pair) {
    return remotePortOf[pair];
  }

  /** Returns the key of the table for this end, at a queue pair. */
  @HotPath
  int tableKey(int pair) {
    return ports[portOf[pair]].tableKey();
  }

  /** Returns the key of the other end's table, at a queue pair. */
  @HotPath
  int remoteTableKey(int pair) {
    return remoteTableKeys[pair];
  }

  /** Returns the information for the other end, which reaches this one by it. */
  RemoteQpInfo describe(int rank, boolean split, int nics, int nic) {
    int[] numbers = Arrays.stream(pairs).mapToInt(QueuePair::number).toArray();
    List<RemotePort> described = Stream.of(ports).map(PortQueues::describe).toList();
    return new RemoteQpInfo(rank, split, table.address(), nics, nic, described, numbers);
  }

  /** Connects the queue pairs to the other end's. */
  void connect(IbSettings settings, RemoteQpInfo other) {
    if (other.queuePairs().length != pairs.length) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "%s has %d queue pairs for a connection of %d"
              .formatted(other.describe(), other.queuePairs().length, pairs.length),
          "run the same version of nccl4j on all ranks");
    }
    remote = other;
    remotePortOf = places(other.ports().size());
    remoteTableKeys = new int[pairs.length];
    for (int i = 0; i < pairs.length; i++) {
      RemotePort there = other.ports().get(remotePortOf[i]);
      remoteTableKeys[i] = there.remoteKey();
      pairs[i].connect(settings, ports[portOf[i]].local, there, other.queuePairs()[i]);
    }
    measure();
  }

  /** A queue pair is as fast as the slower of its ports, which it shares with others. */
  private void measure() {
    long[] each = new long[width];
    for (int i = 0; i < width; i++) {
      long here = ports[portOf[i]].local.port().megabits() / sharing(portOf, portOf[i]);
      RemotePort port = remote.ports().get(remotePortOf[i]);
      long there = port.megabits() / sharing(remotePortOf, remotePortOf[i]);
      each[i] = Math.max(1, Math.min(here, there));
    }
    long most = Arrays.stream(each).max().orElseThrow();
    fastest = IntStream.range(0, width).filter(i -> each[i] == most).toArray();
    Arrays.parallelPrefix(each, Long::sum);
    speeds = each;
  }

  private long sharing(int[] places, int port) {
    return Arrays.stream(places, 0, width).filter(place -> place == port).count();
  }

  /**
   * Returns the end of a queue pair's part of a message that goes over one round of them or over
   * all.
   *
   * @param place of the queue pair among those that the message goes over
   * @param of the number of these
   */
  @HotPath
  int end(int bytes, int place, int of) {
    long whole = speeds[width - 1];
    long rounds = of / width;
    long until = place / width * whole + speeds[place % width];
    long end = bytes * until / (whole * rounds);
    return (int) Math.min(bytes, (end + UNIT - 1) / UNIT * UNIT);
  }

  /** Returns the place in a round of a queue pair that takes a whole message. */
  @HotPath
  int fast(long group) {
    return fastest[(int) (group % fastest.length)];
  }

  /** The other end, once the queue pairs are connected. */
  RemoteQpInfo remote() {
    return remote;
  }

  /**
   * Looks for events of the devices.
   *
   * @throws NcclException if a device or one of the queues is dead, or a port is down for long
   */
  void check(long patienceNanos) {
    for (PortQueues port : ports) {
      port.check(patienceNanos);
    }
  }

  /** Returns a port that is known to be down; null if there is none. */
  PortQueues down() {
    for (PortQueues port : ports) {
      if (port.isDown()) {
        return port;
      }
    }
    return null;
  }

  /** True if one of the devices is dead. */
  boolean isFatal() {
    return Stream.of(ports).anyMatch(port -> port.device.events().isFatal());
  }

  /** Has events of the devices wake somebody, until {@link #leave}. */
  void wake(Runnable whom) {
    for (PortQueues port : ports) {
      port.device.events().wake(whom);
    }
  }

  /** Has events of the devices wake somebody no longer. */
  void leave(Runnable whom) {
    for (PortQueues port : ports) {
      port.device.events().leave(whom);
    }
  }

  /** The devices of the ports, in order. */
  List<OpenDevice> devices() {
    return Stream.of(ports).map(port -> port.device).toList();
  }

  /** Ends the queue pairs: nothing leaves or arrives any more. */
  void stop() {
    for (PortQueues port : ports) {
      port.stop();
    }
  }

  /** The path in words, for people. */
  String path() {
    return "%s to %s".formatted(local.name(), remote.describe());
  }

  /** Frees all. Memory that is registered with the devices has to be forgotten before. */
  @Override
  public void close() {
    for (PortQueues port : ports) {
      if (port != null) {
        port.close();
      }
    }
  }
}
