package org.nccl4j.it.flink;

import java.io.Serializable;
import java.util.HashMap;
import org.apache.flink.api.common.functions.AggregateFunction;

/**
 * Brings the subtasks of an operator together in the job's master: when all have arrived, each gets
 * the first one's text. Subtasks that are started again form a new round.
 */
final class Rendezvous implements AggregateFunction<Rendezvous.Arrival, Rendezvous.Rounds, String> {
  private static final long serialVersionUID = 1L;

  /**
   * A subtask that has come.
   *
   * @param number different for each attempt of a subtask
   * @param offered what the first subtask has for all
   */
  record Arrival(int subtask, int subtasks, String number, String offered)
      implements Serializable {}

  /** The round that is filling, the last full one, and the answer to the last arrival. */
  static final class Rounds implements Serializable {
    private static final long serialVersionUID = 1L;

    private final HashMap<Integer, Arrival> filling = new HashMap<>();
    private final HashMap<Integer, Arrival> full = new HashMap<>();
    private String answer = "";
  }

  @Override
  public Rounds createAccumulator() {
    return new Rounds();
  }

  @Override
  public Rounds add(Arrival arrival, Rounds rounds) {
    if (!arrival.equals(rounds.full.get(arrival.subtask()))) {
      rounds.filling.put(arrival.subtask(), arrival);
      if (rounds.filling.size() < arrival.subtasks()) {
        rounds.answer = "";
        return rounds;
      }
      rounds.full.clear();
      rounds.full.putAll(rounds.filling);
      rounds.filling.clear();
    }
    rounds.answer = rounds.full.get(0).offered();
    return rounds;
  }

  @Override
  public String getResult(Rounds rounds) {
    return rounds.answer;
  }

  @Override
  public Rounds merge(Rounds one, Rounds other) {
    throw new UnsupportedOperationException("global aggregates are not merged");
  }
}
