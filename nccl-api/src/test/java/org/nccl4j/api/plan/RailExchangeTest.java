package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Protocol;

/** The messages of all-to-alls by rails, carried out by hand. */
class RailExchangeTest {
  private static P2pWork work(
      boolean sends, int peer, DeviceMemory buffer, long offset, long bytes) {
    P2pWork.Kind kind = sends ? P2pWork.Kind.SEND : P2pWork.Kind.RECV;
    return new P2pWork(kind, peer, buffer, offset, bytes, Protocol.SIMPLE);
  }

  /** A rank that carries out its steps, one after the other. */
  private static final class Rank {
    final int rank;
    final List<List<P2pWork>> steps;
    final byte[] send;
    final byte[] recv;
    final byte[] between;
    int step;
    List<P2pWork> open = List.of();

    Rank(int rank, RailExchange exchange, int nRanks, int part) {
      this.rank = rank;
      steps = exchange.steps(part, RailExchangeTest::work);
      send = new byte[nRanks * part];
      recv = new byte[nRanks * part];
      between = new byte[(int) exchange.bytes()];
      for (int to = 0; to < nRanks; to++) {
        for (int i = 0; i < part; i++) {
          send[to * part + i] = value(rank, to, i);
        }
      }
      Arrays.fill(recv, (byte) 0x77);
    }

    byte[] buffer(P2pWork work) {
      return work.buffer() != null ? between : work.kind() == P2pWork.Kind.SEND ? send : recv;
    }
  }

  private static byte value(int from, int to, int i) {
    return (byte) (31 * from + 7 * to + i);
  }

  /** Messages by sender and receiver, in order. */
  private final Map<List<Integer>, Queue<byte[]>> onTheWay = new HashMap<>();

  private Queue<byte[]> way(int from, int to) {
    return onTheWay.computeIfAbsent(List.of(from, to), none -> new ArrayDeque<>());
  }

  /** Does what a rank can do now; true if it did something. */
  private boolean progress(Rank rank) {
    if (rank.open.isEmpty() && rank.step < rank.steps.size()) {
      rank.open = new ArrayList<>(rank.steps.get(rank.step++));
      for (P2pWork work : rank.open) {
        if (work.kind() == P2pWork.Kind.SEND) {
          int at = (int) work.offset();
          way(rank.rank, work.peer())
              .add(Arrays.copyOfRange(rank.buffer(work), at, at + (int) work.bytes()));
        }
      }
      rank.open.removeIf(work -> work.kind() == P2pWork.Kind.SEND);
      return true;
    }
    return rank.open.removeIf(work -> isReceived(rank, work));
  }

  private boolean isReceived(Rank rank, P2pWork work) {
    byte[] message = way(work.peer(), rank.rank).poll();
    if (message == null) {
      return false;
    }
    assertEquals(work.bytes(), message.length);
    System.arraycopy(message, 0, rank.buffer(work), (int) work.offset(), message.length);
    return true;
  }

  private static List<List<Integer>> hosts(String placement) {
    return placement
        .chars()
        .distinct()
        .mapToObj(
            host ->
                IntStream.range(0, placement.length())
                    .filter(rank -> placement.charAt(rank) == host)
                    .boxed()
                    .toList())
        .toList();
  }

  /** The steps are three where parts for a host are not next to each other. */
  @ParameterizedTest
  @CsvSource({
    "aabb, 1, 2",
    "aaabbb, 5, 2",
    "aabbcc, 1000, 2",
    "aabbccdd, 33, 2",
    "aaaabbbbccccddddeeee, 3, 2",
    "aaaaaaaabbbbbbbb, 16, 2",
    "abab, 7, 3",
    "abcabcabc, 3, 3",
    "abba, 5, 3",
    "abcdabcdabcd, 1000, 3",
    "aab, 9, 2",
    "aabbb, 4, 2",
    "abbbbb, 11, 2",
    "aaaaaab, 3, 2",
    "abacbacaba, 17, 3",
    "caabbcab, 2, 3"
  })
  void everyPartComesToItsRankInFewMessagesBetweenHosts(String placement, int part, int steps) {
    int n = placement.length();
    List<List<Integer>> hosts = hosts(placement);
    List<RailExchange> exchanges = new ArrayList<>();
    List<Rank> ranks = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      exchanges.add(new RailExchange(rank, hosts, HostDevice.instance()));
      ranks.add(new Rank(rank, exchanges.get(rank), n, part));
    }
    boolean moved = true;
    while (moved) {
      moved = false;
      for (Rank rank : ranks) {
        moved |= progress(rank);
      }
    }
    for (Rank rank : ranks) {
      assertTrue(rank.step == rank.steps.size() && rank.open.isEmpty(), "left: " + rank.open);
      byte[] expected = new byte[n * part];
      for (int from = 0; from < n; from++) {
        for (int i = 0; i < part; i++) {
          expected[from * part + i] = value(from, rank.rank, i);
        }
      }
      assertArrayEquals(expected, rank.recv, "rank " + rank.rank);
      assertFewMessages(rank, exchanges.get(rank.rank), placement);
    }
    assertEquals(steps, ranks.stream().mapToInt(rank -> rank.steps.size()).max().orElseThrow());
    assertTrue(onTheWay.values().stream().allMatch(Queue::isEmpty), "a send without a receive");
    exchanges.forEach(RailExchange::close);
  }

  /** One to each other host, and among ranks with the same number where the hosts have as many. */
  private static void assertFewMessages(Rank rank, RailExchange exchange, String placement) {
    List<List<Integer>> hosts = hosts(placement);
    boolean even = hosts.stream().map(List::size).distinct().count() == 1;
    List<Integer> locals = hosts.get(host(hosts, rank.rank));
    int far = 0;
    for (List<P2pWork> step : rank.steps) {
      Set<List<Object>> underWay = new HashSet<>();
      for (P2pWork work : step) {
        List<Integer> theirs = hosts.get(host(hosts, work.peer()));
        boolean near = theirs.equals(locals);
        far += !near && work.kind() == P2pWork.Kind.SEND ? 1 : 0;
        underWay.add(List.of(work.kind(), work.peer()));
        assertTrue(
            near || !even || theirs.indexOf(work.peer()) == locals.indexOf(rank.rank),
            work.toString());
      }
      underWay.removeIf(each -> each.get(1).equals(rank.rank));
      assertTrue(underWay.size() < exchange.messages(), underWay.toString());
    }
    assertEquals(hosts.size() - 1, far);
    assertEquals(far, exchange.farMessages(/* byRails= */ true));
    assertEquals(placement.length() - locals.size(), exchange.farMessages(/* byRails= */ false));
  }

  private static int host(List<List<Integer>> hosts, int rank) {
    int host = 0;
    while (!hosts.get(host).contains(rank)) {
      host++;
    }
    return host;
  }

  /** Plans of earlier sizes keep naming their memory. */
  @Test
  void memoryGrowsByDoublingAndIsKeptUntilTheEnd() {
    RailExchange exchange = new RailExchange(0, hosts("aabb"), HostDevice.instance());
    assertEquals(0, exchange.bytes());
    exchange.steps(1, RailExchangeTest::work);
    assertEquals(64 << 10, exchange.bytes());
    DeviceMemory small = memory(exchange.steps(32 << 10, RailExchangeTest::work));
    assertEquals(64 << 10, exchange.bytes());
    DeviceMemory large = memory(exchange.steps((32 << 10) + 1, RailExchangeTest::work));
    assertEquals((64 << 10) + (128 << 10), exchange.bytes());
    assertTrue(small.isOpen() && large.size() == 128 << 10);
    exchange.close();
    assertTrue(!small.isOpen() && !large.isOpen());
    assertEquals(0, exchange.bytes());
  }

  private static DeviceMemory memory(List<List<P2pWork>> steps) {
    return steps.get(0).stream()
        .map(P2pWork::buffer)
        .filter(buffer -> buffer != null)
        .findFirst()
        .orElseThrow();
  }
}
