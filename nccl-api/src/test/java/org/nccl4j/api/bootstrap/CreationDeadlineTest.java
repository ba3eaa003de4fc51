package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;

/** One deadline for all that it takes to make a communicator. */
@Timeout(600)
class CreationDeadlineTest {
  private static final Duration SHORT = Duration.ofMillis(1500);

  /** All that any try has made. */
  private final Queue<Bootstrap> toClose = new ConcurrentLinkedQueue<>();

  @AfterEach
  void close() {
    toClose.forEach(Bootstrap::close);
  }

  /** The ways in which two ranks connect. */
  private Map<String, Function<Duration, List<Bootstrap>>> ways() {
    Map<String, Function<Duration, List<Bootstrap>>> ways = new HashMap<>();
    ways.put("in memory", deadline -> LocalBootstrap.create(2, deadline));
    ways.put("by sockets", deadline -> joined(Ranks.newIds(1), deadline));
    ways.put("again", deadline -> again(joined(Ranks.newIds(1), deadline)));
    return ways;
  }

  /** Two ranks, of which any may fail to be made. */
  private List<Bootstrap> both(Function<Integer, Bootstrap> rank) {
    List<Ranks.Ended<Bootstrap>> ended =
        Ranks.run(
            2,
            index -> {
              Bootstrap made = rank.apply(index);
              toClose.add(made);
              return made;
            });
    return ended.stream().map(Ranks.Ended::get).toList();
  }

  private List<Bootstrap> joined(List<BootstrapId> ids, Duration deadline) {
    return both(rank -> TcpBootstrap.join(Ranks.request(ids, 2, rank, deadline)));
  }

  private List<Bootstrap> again(List<Bootstrap> old) {
    old.forEach(Bootstrap::made);
    byte[] lead = old.get(0).meetingPoint();
    List<Bootstrap> made = both(rank -> old.get(rank).reunite(List.of(0, 1), lead, "again"));
    old.forEach(Bootstrap::close);
    return made;
  }

  @TestFactory
  Stream<DynamicTest> exchangesThatEachEndInTimeDoNotMakeACreationEndless() {
    return ways().entrySet().stream()
        .map(
            way ->
                DynamicTest.dynamicTest(
                    way.getKey(),
                    () ->
                        LongerDeadline.retry(
                            SHORT, deadline -> neverMade(way.getValue(), deadline))));
  }

  private static void neverMade(Function<Duration, List<Bootstrap>> way, Duration deadline) {
    List<Bootstrap> ranks = way.apply(deadline);
    List<Ranks.Ended<Object>> ended =
        Ranks.run(
            2,
            rank -> {
              while (true) {
                ranks.get(rank).barrier();
                LockSupport.parkNanos(1_000_000); // else they take all processors
              }
            });
    assertTrue(
        ended.stream().anyMatch(each -> each.failure() instanceof TimeoutException),
        ended.toString());
    NcclException first = ended.get(0).failure();
    assertTrue(first.getMessage().contains("NCCL4J_INIT_TIMEOUT"), first.getMessage());
    ranks.forEach(Bootstrap::close);
  }

  @TestFactory
  Stream<DynamicTest> whatIsMadeHasADeadlineForEachExchange() {
    return ways().entrySet().stream()
        .map(way -> DynamicTest.dynamicTest(way.getKey(), () -> made(way.getValue())));
  }

  private static void made(Function<Duration, List<Bootstrap>> way) {
    List<Bootstrap> ranks = way.apply(Ranks.LONG);
    Bootstrap one = ranks.get(0);
    long end = one.exchangeEnd();
    Ranks.run(
            2,
            rank -> {
              ranks.get(rank).barrier();
              return null;
            })
        .forEach(Ranks.Ended::get);
    assertEquals(end, one.exchangeEnd(), "the exchange has used up its part of the deadline");
    one.made();
    long next = one.exchangeEnd();
    assertTrue(next - end > 0, "an exchange after the creation has the whole deadline");
    assertTrue(one.exchangeEnd() - next > 0, "and so has the one after it");
    one.making();
    assertEquals(one.exchangeEnd(), one.exchangeEnd(), "and another creation has one for all");
    ranks.forEach(Bootstrap::close);
  }
}
