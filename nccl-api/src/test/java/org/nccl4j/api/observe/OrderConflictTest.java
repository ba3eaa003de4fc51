package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;

/** Communicators 1 and 2 of two processes, whose kernels say nothing: the calls' order tells. */
class OrderConflictTest {
  private static final List<String> NAMES = List.of("all_reduce");
  private static final long STILL = OrderConflict.STILL_MILLIS;
  private static final RankReport.ProcessReport P = new RankReport.ProcessReport("h", 1, "S");
  private static final RankReport.ProcessReport Q = new RankReport.ProcessReport("h", 2, "S");

  private final List<RankReport> reports = new ArrayList<>();

  private void report(
      RankReport.ProcessReport process, long communicator, int rank, RankReport.Front front) {
    RankReport.Operation sum =
        new RankReport.Operation(2, 1, "all_reduce", 0, 8, 32, "sum of " + communicator);
    RankReport.Operation other = new RankReport.Operation(1, 0, "other", 0, 0, 0, "another");
    String name = "comm " + communicator;
    reports.add(
        new RankReport(
            process,
            communicator,
            name,
            rank,
            2,
            2,
            0,
            1,
            -1,
            0,
            0,
            false,
            front,
            List.of(other, sum),
            List.of(),
            RankReport.Links.NONE,
            "",
            RankReport.Replays.NONE));
  }

  /** Communicator 1 before communicator 2, in one stream. */
  private void reportOfP() {
    report(P, 1, 0, front(10, 7, STILL));
    report(P, 2, 1, front(11, 7, STILL));
  }

  private static RankReport.Front front(long call, long stream, long still) {
    return new RankReport.Front(call, stream, still, 1);
  }

  private List<OrderMismatchException> conflicts() {
    List<OrderMismatchException> found = new ArrayList<>();
    for (RankReport each : reports) {
      new OrderConflict(reports).of(each.communicator(), each.rank()).ifPresent(found::add);
    }
    return found;
  }

  @Test
  void oppositeOrdersInOneStreamEachAreNamed() {
    reportOfP();
    report(Q, 1, 1, front(5, 9, STILL));
    report(Q, 2, 0, front(4, 9, STILL));
    List<OrderMismatchException> found = conflicts();
    assertEquals(2, found.size(), "each of the two that are in front sees it");
    String problem = found.get(0).problem();
    assertTrue(problem.contains("communicators comm 1 and comm 2 are used in"), problem);
    assertTrue(problem.contains("sum of 1 of rank 0 of comm 1 (process 1 on h)"), problem);
    assertTrue(problem.contains("with sum of 2 of rank 1 of comm 2 behind it"), problem);
    assertTrue(problem.contains("sum of 2 of rank 0 of comm 2 (process 2 on h)"), problem);
  }

  @Test
  void theSameOrderIsNone() {
    reportOfP();
    report(Q, 1, 1, front(4, 9, STILL));
    report(Q, 2, 0, front(5, 9, STILL));
    assertEquals(List.of(), conflicts());
  }

  @Test
  void streamsOfTheirOwnGoOn() {
    reportOfP();
    report(Q, 1, 1, front(5, 9, STILL));
    report(Q, 2, 0, front(4, 8, STILL));
    assertEquals(List.of(), conflicts());
  }

  @Test
  void whatHasOnlyJustBegunMayGoOn() {
    reportOfP();
    report(Q, 1, 1, front(5, 9, STILL - 1));
    report(Q, 2, 0, front(4, 9, STILL));
    assertEquals(List.of(), conflicts());
  }

  private List<OrderNotice> waits() {
    return reports.stream()
        .flatMap(
            each -> new OrderConflict(reports).waits(each.communicator(), each.rank()).stream())
        .toList();
  }

  /** Each host's record is enough to diagnose the other. */
  @Test
  void oppositeOrdersOnTwoHostsAreNamed() {
    reportOfP();
    List<OrderNotice> ofP = waits();
    assertEquals(1, ofP.size());
    assertEquals(List.of(), conflicts());
    reports.clear();
    report(Q, 1, 1, front(5, 9, STILL));
    report(Q, 2, 0, front(4, 9, STILL));
    OrderNotice.Heard heard = new OrderNotice.Heard();
    assertEquals(Optional.empty(), OrderConflict.between(waits(), heard));
    ofP.forEach(told -> heard.add(OrderNotice.decode(told.encode()).orElseThrow()));
    String problem = OrderConflict.between(waits(), heard).orElseThrow().problem();
    assertTrue(problem.contains("communicators comm 2 and comm 1 are used in"), problem);
    assertTrue(problem.contains("sum of 1 of rank 0 of comm 1 (process 1 on h)"), problem);
    assertTrue(problem.contains("sum of 2 of rank 0 of comm 2 (process 2 on h)"), problem);
    // Once P's call is another, its own has been met, and what was told is old.
    reports.clear();
    report(Q, 1, 1, new RankReport.Front(5, 9, STILL, 2));
    report(Q, 2, 0, front(4, 9, STILL));
    assertEquals(Optional.empty(), OrderConflict.between(waits(), heard));
    assertEquals(Optional.empty(), OrderNotice.decode(new byte[] {1, 2, 3}));
  }

  @Test
  void whatIsHeardIsKeptWithinBounds() {
    OrderNotice.Heard heard = new OrderNotice.Heard();
    for (long n = 1; n <= 100_000; n++) {
      heard.add(new OrderNotice(n, 1, 0, 1, "first", "text"));
    }
    OrderNotice old = new OrderNotice(0, 1, 1, 1, "own", "text");
    OrderNotice last = new OrderNotice(0, 1, 100_000, 1, "own", "text");
    assertEquals(Optional.empty(), heard.contradicting(List.of(old)));
    assertEquals(last, heard.contradicting(List.of(old, last)).orElseThrow().get(0));
  }

  private static void recorded(Consumer<FlightRecorder> test) {
    FlightRecorder log = FlightRecorder.open(new FlightRecorder.Rank("r", 1, 0, 2, NAMES, ""));
    try {
      test.accept(log);
    } finally {
      log.close();
    }
  }

  private static RankReport.Front frontOf(FlightRecorder log) {
    return log.report(NAMES).front();
  }

  @Test
  void theRecorderSaysWhatWaitsInFront() {
    recorded(
        log -> {
          assertEquals(0, frontOf(log).call());
          log.waitsInOrder(3, 1000);
          log.waitsInOrder(4, 2000);
          RankReport.Front first = frontOf(log);
          assertTrue(first.call() > 0 && log.hasFront());
          assertEquals(3, first.stream());
          assertEquals(1, first.number());
          log.metInOrder(3000);
          assertTrue(frontOf(log).call() > first.call());
          assertEquals(4, frontOf(log).stream());
          assertEquals(2, frontOf(log).number());
          log.metInOrder(4000);
          assertEquals(0, frontOf(log).call());
          assertTrue(!log.hasFront());
        });
  }

  /** Of GPUs two bounds are known; what the compared calls tell is how far they are. */
  @Test
  void theRecorderSaysHowFarAGpuIs() {
    recorded(
        log -> {
          for (int call = 0; call < 3; call++) {
            log.waitsInOrder(3, 1000);
            log.other(FlightRecorder.UNNAMED, 0);
            log.collective(CallShape.of(0, 7, 0, 0), 100 + call);
          }
          log.observe(bounded(0, 6), 2000);
          RankReport report = log.report(NAMES);
          assertEquals(1, report.current().number());
          assertEquals(6, report.currentAtMost().number());
          assertEquals(
              "one of operations 1 to 6, the first of them another operation",
              report.inOperation());
          log.metInOrder(2000);
          log.metInOrder(2000);
          log.observe(bounded(0, 6), 3000);
          report = log.report(NAMES);
          assertEquals(3, report.ended());
          assertEquals(101, report.current().count(), "the second all-reduce runs");
          assertEquals("operation 4, all_reduce of 101 float (sum)", report.inOperation());
          log.observe(bounded(6, 7), 4000);
          assertEquals(6, log.report(NAMES).ended());
        });
  }

  private static KernelCommunicator bounded(long ended, long firstNotEnded) {
    return (KernelCommunicator)
        Proxy.newProxyInstance(
            OrderConflictTest.class.getClassLoader(),
            new Class<?>[] {KernelCommunicator.class},
            (proxy, method, arguments) ->
                switch (method.getName()) {
                  case "ended" -> ended;
                  case "firstNotEnded" -> firstNotEnded;
                  case "waitsFor" -> -1;
                  case "failure" -> null;
                  default -> throw new UnsupportedOperationException(method.getName());
                });
  }
}
