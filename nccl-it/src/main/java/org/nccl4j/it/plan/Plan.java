package org.nccl4j.it.plan;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.plan.cost.AlgorithmChoice;

/**
 * The layouts of a job with their communication, the least time first.
 *
 * @param job the job
 * @param estimates of the layouts that fit
 * @param tooLarge layouts left out because they need more memory than a GPU has
 * @param undivided layouts left out because the batch cannot be divided
 * @param leastBytes memory that the smallest of the layouts left out needs; 0 if none was
 */
record Plan(Job job, List<Estimate> estimates, int tooLarge, int undivided, double leastBytes) {

  /** Copies the list. */
  Plan {
    estimates = List.copyOf(estimates);
  }

  /**
   * One kind of call with its time.
   *
   * @param way of one call, with its microseconds
   */
  record Timed(Traffic traffic, AlgorithmChoice way) {
    /** Of all calls of a step. */
    double milliseconds() {
      return traffic.calls() * way.microseconds() / 1e3;
    }
  }

  /**
   * A layout.
   *
   * @param stages their layers
   * @param memory of the fullest GPU
   * @param calls of the busiest GPU
   */
  record Estimate(
      Layout layout, Stages stages, int microBatches, MemoryNeed memory, List<Timed> calls) {
    /** Copies the list. */
    Estimate {
      calls = List.copyOf(calls);
    }

    /** Time of an axis in a step. */
    double milliseconds(Traffic.Axis axis) {
      return calls.stream()
          .filter(call -> call.traffic().axis() == axis)
          .mapToDouble(Timed::milliseconds)
          .sum();
    }

    /** Time of all communication, one call after the other. */
    double milliseconds() {
      return calls.stream().mapToDouble(Timed::milliseconds).sum();
    }

    /** Time of what computation waits for. */
    double exposed() {
      return calls.stream()
          .filter(call -> call.traffic().axis().exposed())
          .mapToDouble(Timed::milliseconds)
          .sum();
    }

    /**
     * Share of a step, 0 to 1, in which a stage has no micro-batch. Of unequal stages the mean, as
     * if all layers took as long: each micro-batch takes the time of the stage with the most.
     */
    double bubble() {
      double busy = (double) microBatches * stages.layers() / (stages.number() * stages.most());
      return 1 - busy / (microBatches + stages.number() - 1);
    }
  }

  /** Tries layouts. */
  static Plan of(Job job, List<Layout> layouts, GroupCosts costs) {
    List<Estimate> estimates = new ArrayList<>();
    int tooLarge = 0;
    int undivided = 0;
    double least = 0;
    for (Layout layout : layouts) {
      int microBatches = job.microBatches(layout);
      if (microBatches == 0) {
        undivided++;
        continue;
      }
      MemoryNeed memory = MemoryNeed.of(job, layout);
      if (memory.bytes() > job.memoryBytes()) {
        tooLarge++;
        least = least == 0 ? memory.bytes() : Math.min(least, memory.bytes());
        continue;
      }
      int last = layout.pipeline() - 1;
      estimates.add(
          IntStream.rangeClosed(0, last)
              .mapToObj(stage -> Traffic.of(job, layout, last - stage))
              .distinct() // most are like others
              .map(traffic -> timed(traffic, costs))
              .map(
                  calls ->
                      new Estimate(layout, layout.stages(job.model()), microBatches, memory, calls))
              .max(Comparator.comparingDouble(Estimate::milliseconds))
              .orElseThrow());
    }
    estimates.sort(Comparator.comparingDouble(Estimate::milliseconds));
    return new Plan(job, estimates, tooLarge, undivided, least);
  }

  private static List<Timed> timed(List<Traffic> calls, GroupCosts costs) {
    return calls.stream().map(traffic -> new Timed(traffic, costs.cost(traffic))).toList();
  }
}
