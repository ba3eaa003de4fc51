package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;

/** Operations that a rank has missed by closing, and others. */
class DeparturesTest {
  private static final List<String> NAMES = List.of("all_reduce", "broadcast", "send", "recv");
  private static final FlightRecorder.Rank GONE =
      new FlightRecorder.Rank("words", 77, 1, 3, NAMES, "");
  private static final FlightRecorder.Rank HERE =
      new FlightRecorder.Rank("words", 77, 2, 3, NAMES, "");

  private final FlightRecorder gone = FlightRecorder.open(GONE);
  private final FlightRecorder here = FlightRecorder.open(HERE);

  @AfterEach
  void close() {
    gone.close();
    here.close();
  }

  private static void sum(FlightRecorder log, int count) {
    log.collective(CallShape.of(0, DataType.FLOAT32.ordinal(), RedOp.SUM.ordinal(), 0), count);
  }

  private static void single(FlightRecorder log, boolean sends, int peer) {
    log.other(CallShape.of(sends ? 2 : 3, DataType.FLOAT32.ordinal(), 0, peer), 5);
    log.single(sends, peer);
  }

  /** After the departure has travelled. */
  private String missed(int waitsFor) {
    return missed(Departure.of(gone, GONE, true), waitsFor);
  }

  private String missed(Departure departure, int waitsFor) {
    Departure heard = Departure.decode(departure.encode()).orElseThrow();
    assertEquals(departure, heard);
    return Departures.missed(List.of(heard), here, HERE, waitsFor)
        .map(NcclException::problem)
        .orElse("");
  }

  @Test
  void whoHasCalledTheSameMissesNothing() {
    for (FlightRecorder each : List.of(gone, here)) {
      sum(each, 8);
      single(each, each == gone, each == gone ? 2 : 1);
      sum(each, 8);
    }
    assertEquals("", missed(1));
  }

  @Test
  void whatOthersSendEachOtherIsNoMatterOfIt() {
    sum(gone, 8);
    sum(here, 8);
    single(here, true, 0);
    single(here, false, 0);
    assertEquals("", missed(0));
  }

  @Test
  void theFirstCollectiveThatItMissesIsNamed() {
    sum(gone, 8);
    sum(here, 8);
    single(here, true, 0);
    sum(here, 9);
    sum(here, 10);
    assertEquals(
        "rank 1 closed communicator words after collective 1, before collective 2 (all_reduce of 9"
            + " float (sum)), which rank 2 has called",
        missed(-1));
  }

  @Test
  void messagesAreCountedByPeer() {
    single(gone, true, 2);
    single(gone, true, 0);
    single(here, false, 1);
    assertEquals("", missed(1));
    single(here, false, 1);
    assertEquals(
        "rank 1 closed communicator words after 1 sends to rank 2, which has called receive 2",
        missed(-1));
  }

  @Test
  void whoHasSentItMoreIsOnlyStuckWhileItWaits() {
    single(here, true, 1);
    assertEquals("", missed(0));
    assertEquals(
        "rank 1 closed communicator words after 0 receives from rank 2, which waits in send 1",
        missed(1));
  }

  @Test
  void whatGraphsRepeatIsNotCounted() {
    sum(here, 8);
    assertEquals("", missed(Departure.of(gone, GONE, false), 1));
  }

  @Test
  void noticesOfOtherKindsAreNotTakenForIt() {
    byte[] order = new OrderNotice(1, 2, 3, 4, "words", "text").encode();
    assertEquals(Optional.empty(), Departure.decode(order));
    assertEquals(Optional.empty(), OrderNotice.decode(Departure.of(gone, GONE, true).encode()));
    assertEquals(Optional.empty(), Departure.decode(new byte[0]));
  }

  @Test
  void onceAllHaveClosedNothingIsKept() {
    Departures all = new Departures();
    all.add(Departure.of(gone, GONE, true));
    all.add(Departure.of(here, HERE, true));
    assertEquals(2, all.of(77).size());
    all.add(Departure.of(gone, new FlightRecorder.Rank("words", 77, 0, 3, NAMES, ""), true));
    assertEquals(List.of(), all.of(77));
  }

  @Test
  void aDeadlinesMessageSaysWhoHasClosed() {
    sum(gone, 8);
    String said =
        Diagnosis.ofHang(List.of(here.report(NAMES)), List.of(Departure.of(gone, GONE, true)));
    assertTrue(said.contains("; rank 1 has closed it after 1 collectives"), said);
    assertTrue(said.contains("no data of rank 0,"), said);
  }

  private static Departure of(int rank) {
    FlightRecorder.Rank self = new FlightRecorder.Rank("words", 77, rank, 3, NAMES, "");
    FlightRecorder log = FlightRecorder.open(self);
    try {
      return Departure.of(log, self, true);
    } finally {
      log.close();
    }
  }

  /** Notices of other ranks may still come. */
  @Test
  void theDeparturesOfAClosedCommunicatorAreNotKept() {
    Departures all = new Departures();
    all.add(of(0));
    assertEquals(1, all.of(77).size());
    all.isOver(77);
    assertEquals(List.of(), all.of(77));
    all.add(of(1));
    assertEquals(List.of(), all.of(77));
    all.add(of(2));
    all.add(of(0));
    assertEquals(1, all.of(77).size(), "all had closed, so this is another one");
  }
}
