package org.nccl4j.it.netns;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/**
 * The plan of a seed of a test with faulty links. At any time one rail or more joins all hosts, but
 * for a host that loses all of its rails for a short while.
 *
 * @param hosts one rank each
 * @param rails interfaces of each host
 * @param mostBytes of an operation
 * @param settings of the ranks
 * @param events one after the other, each in a phase of operations
 */
public record LinkDownPlan(
    Network network,
    long seed,
    int hosts,
    int rails,
    int mostBytes,
    Map<String, String> settings,
    List<Event> events) {
  static final int MOST_HOSTS = 3;
  static final int MOST_RAILS = 3;

  /** Operations of a phase. */
  static final int OPERATIONS = 8;

  static final int DEADLINE_SECONDS = 60;

  private static final int ALL_RAILS = -1;

  /** The network whose links fail. */
  public enum Network {
    /** TCP between namespaces. */
    SOCKETS,
    /** Soft-RoCE between two ports of a guest. */
    ROCE
  }

  /** The fault of one interface. */
  public enum Fault {
    /** The host takes the interface down. */
    DOWN,
    /** The switch takes its port down: the interface has no carrier. */
    NO_CARRIER,
    /** The switch passes nothing on, both ways, and the link stays up. */
    SILENT,
    /** Loses all packets that the host sends. */
    MUTE,
    /** Loses all packets that are sent to the host. */
    DEAF
  }

  /** The end of a fault. */
  public enum End {
    /** After some milliseconds. */
    SOON,
    /** Once the operations of its phase are through. */
    LATER,
    /** Once all operations are through. */
    LAST
  }

  /**
   * An interface that fails.
   *
   * @param rail its number; all of the host if negative
   * @param bytes so many are sent over it first
   * @param millis until it is repaired, if that is soon
   */
  public record Event(int host, int rail, Fault fault, int bytes, End end, int millis) {
    /** The rails that fail. */
    public List<Integer> of(int rails) {
      List<Integer> all = new ArrayList<>();
      for (int each = 0; each < rails; each++) {
        if (rail == ALL_RAILS || rail == each) {
          all.add(each);
        }
      }
      return all;
    }

    /** The kind of event. */
    String text() {
      return (rail == ALL_RAILS ? "all " : "one ") + fault + " " + end;
    }
  }

  /** Returns the plan of a seed. */
  public static LinkDownPlan of(Network network, long seed) {
    Random random = new Random(seed * 7919);
    boolean sockets = network == Network.SOCKETS;
    int hosts = sockets ? 2 + random.nextInt(MOST_HOSTS - 1) : 2;
    int rails = sockets ? 2 + random.nextInt(MOST_RAILS - 1) : 2;
    Map<String, String> settings = sockets ? sockets(random, rails) : roce(random);
    List<Event> events = new ArrayList<>();
    int number = 1 + random.nextInt(3);
    int lost = ALL_RAILS; // for the rest of the operations
    for (int n = 0; n < number; n++) {
      boolean last = n == number - 1;
      boolean maySpare = lost == ALL_RAILS && (last || rails > 2);
      End end = End.values()[random.nextInt(maySpare ? 3 : 2)];
      // A connection's only socket goes over the first rail.
      int rail = random.nextInt(3) == 0 ? 0 : random.nextInt(rails);
      rail = rail == lost ? (rail + 1) % rails : rail;
      boolean all = end == End.SOON && random.nextInt(4) == 0;
      lost = end == End.LAST ? rail : lost;
      events.add(
          new Event(
              random.nextInt(hosts),
              all ? ALL_RAILS : rail,
              Fault.values()[random.nextInt(sockets ? Fault.values().length : 3)],
              random.nextInt(sockets ? 6 << 20 : 2 << 20),
              end,
              10 + random.nextInt(all ? 1500 : 3000)));
    }
    int mostBytes = sockets ? 8 << 20 : 1 << 20;
    return new LinkDownPlan(network, seed, hosts, rails, mostBytes, settings, events);
  }

  private static Map<String, String> sockets(Random random, int rails) {
    return with(
        "NCCL_NET=Socket",
        "NCCL_SOCKET_IFNAME=" + (rails == MOST_RAILS ? "eth" : "=eth0,eth1"),
        "NCCL_SOCKET_NTHREADS=" + random.nextInt(3),
        "NCCL_NSOCKS_PERTHREAD=" + (1 + random.nextInt(2)),
        "NCCL4J_NET_CHECKSUM=" + (random.nextInt(4) == 0 ? "crc32c" : "none"),
        "NCCL4J_NET_ZERO_COPY=" + (random.nextBoolean() ? "all" : "off"),
        "NCCL4J_NET_SILENCE_TIMEOUT=1s",
        "NCCL4J_HEARTBEAT_TIMEOUT=120s");
  }

  private static Map<String, String> roce(Random random) {
    return with(
        "NCCL_NET=IB",
        "NCCL_IB_HCA==rxe1,rxe2",
        "NCCL_IB_QPS_PER_CONNECTION=" + (1 + random.nextInt(3)),
        "NCCL_IB_SPLIT_DATA_ON_QPS=" + random.nextInt(2),
        "NCCL_IB_MERGE_NICS=1",
        "NCCL_NET_FORCE_MERGE=" + (random.nextBoolean() ? "rxe1,rxe2" : ""),
        "NCCL_IB_TIMEOUT=14",
        "NCCL_IB_RETRY_CNT=2",
        "NCCL4J_HEARTBEAT_TIMEOUT=120s");
  }

  private static Map<String, String> with(String... settings) {
    Map<String, String> all = new HashMap<>();
    for (String each : settings) {
      String[] pair = each.split("=", 2);
      if (!pair[1].isEmpty()) {
        all.put(pair[0], pair[1]);
      }
    }
    return all;
  }

  /** Phases of operations: before, with, and after the events. */
  int phases() {
    return events.size() + 2;
  }
}
