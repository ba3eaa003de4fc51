package org.nccl4j.api.observe;

import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;

/**
 * The ranks that are known to have closed communicators which other ranks still use. Any thread.
 */
final class Departures {
  /** Communicators of which some rank is not known to have closed; the oldest are forgotten. */
  private static final int MOST = 1000;

  private final Map<Long, Ranks> byCommunicator =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Ranks> eldest) {
          return size() > MOST;
        }
      };

  /** The ranks that have closed a communicator. */
  private static final class Ranks {
    final BitSet closed = new BitSet();
    final Map<Integer, Departure> departures = new TreeMap<>();
    boolean isOver;
  }

  synchronized void add(Departure departure) {
    Ranks ranks = byCommunicator.computeIfAbsent(departure.communicator(), none -> new Ranks());
    ranks.closed.set(departure.rank());
    if (!ranks.isOver) {
      ranks.departures.put(departure.rank(), departure);
    }
    if (ranks.closed.cardinality() >= departure.nRanks()) {
      byCommunicator.remove(departure.communicator());
    }
  }

  /** No rank of this process uses a communicator any more: which ranks have closed is enough. */
  synchronized void isOver(long communicator) {
    Ranks ranks = byCommunicator.get(communicator);
    if (ranks != null) {
      ranks.isOver = true;
      ranks.departures.clear();
    }
  }

  /** The departures of a communicator, by rank. */
  synchronized List<Departure> of(long communicator) {
    Ranks ranks = byCommunicator.get(communicator);
    return ranks == null ? List.of() : List.copyOf(ranks.departures.values());
  }

  /**
   * The error of a rank that has called an operation in which one that has closed never takes part.
   *
   * @param departed those of its communicator
   * @param log of the rank that is still there
   * @param waitsFor the rank that it waits for, or -1
   */
  static Optional<NcclException> missed(
      List<Departure> departed, FlightRecorder log, FlightRecorder.Rank rank, int waitsFor) {
    for (Departure departure : departed) {
      if (departure.rank() != rank.rank() && departure.collectives() != Departure.UNCOUNTED) {
        String missed = missed(departure, log, rank, waitsFor);
        if (!missed.isEmpty()) {
          return Optional.of(error(departure.rank(), rank, missed));
        }
      }
    }
    return Optional.empty();
  }

  /**
   * Returns the operations that a closed rank has missed, as the end of a sentence; empty if there
   * are none.
   */
  private static String missed(
      Departure departure, FlightRecorder log, FlightRecorder.Rank rank, int waitsFor) {
    if (log.collectives() > departure.collectives()) {
      long first = departure.collectives() + 1;
      String text =
          log.report(rank.operations()).operations().stream()
              .filter(op -> op.isCollective() && op.collective() == first)
              .map(op -> " (" + op.text() + ")")
              .findFirst()
              .orElse("");
      String after =
          departure.collectives() == 0 ? "" : " after collective " + departure.collectives();
      return "%s before collective %d%s, which rank %d has called"
          .formatted(after.isEmpty() ? "" : after + ",", first, text, rank.rank());
    }
    Departure.Singles theirs = departure.with(rank.rank());
    if (theirs == null) {
      return "";
    }
    if (log.singles(false, departure.rank()) > theirs.sends()) {
      return " after %d sends to rank %d, which has called receive %d"
          .formatted(theirs.sends(), rank.rank(), theirs.sends() + 1);
    }
    // A send may have ended without its receiver. Only a rank that waits for the receiver is stuck.
    if (log.singles(true, departure.rank()) > theirs.receives() && waitsFor == departure.rank()) {
      return " after %d receives from rank %d, which waits in send %d"
          .formatted(theirs.receives(), rank.rank(), theirs.receives() + 1);
    }
    return "";
  }

  private static NcclException error(int who, FlightRecorder.Rank rank, String missed) {
    return new RemoteException(
        ErrorId.RANK_CLOSED,
        "rank %d closed communicator %s%s".formatted(who, rank.name(), missed),
        "look at that rank's output for an error that made it close early, and call the same"
            + " operations on all ranks before closing");
  }
}
