package org.nccl4j.transport.nvls;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.NcclException;

/**
 * Steps that all ranks take together: after each, everybody knows whether all succeeded, and all
 * give up where one did not. One thread.
 */
final class CollectiveSteps {
  /** A rank could not take a step. */
  static final class Refused extends Exception {
    private static final long serialVersionUID = 1;

    Refused(String reason) {
      super(reason, null, false, false);
    }
  }

  private static final char DONE = '+';
  private static final char FAILED = '-';

  private final Exchange exchange;

  CollectiveSteps(Exchange exchange) {
    this.exchange = exchange;
  }

  /** A rank's action in a step; returns its message to the others. */
  @FunctionalInterface
  interface Step {
    String take() throws Refused;
  }

  /** Returns the time that is left in which the ranks must be done. */
  long leftNanos() {
    return exchange.endNanos() - System.nanoTime();
  }

  /**
   * Takes a step with all others.
   *
   * @param what it does, for people
   * @return what each rank returned, by rank
   * @throws Refused the same on all ranks, with the first rank that could not and why
   */
  List<String> take(String what, Step step) throws Refused {
    String mine;
    try {
      mine = DONE + step.take();
    } catch (NcclException e) {
      mine = FAILED + e.problem();
    } catch (Refused e) {
      mine = FAILED + e.getMessage();
    }
    List<byte[]> all = exchange.allGather(mine.getBytes(StandardCharsets.UTF_8));
    List<String> answers =
        all.stream().map(bytes -> new String(bytes, StandardCharsets.UTF_8)).toList();
    for (int who = 0; who < answers.size(); who++) {
      String answer = answers.get(who);
      if (answer.isEmpty() || answer.charAt(0) != DONE) {
        throw new Refused(
            "rank %d cannot %s: %s"
                .formatted(who, what, answer.isEmpty() ? "no reason" : answer.substring(1)));
      }
    }
    return answers.stream().map(answer -> answer.substring(1)).toList();
  }
}
