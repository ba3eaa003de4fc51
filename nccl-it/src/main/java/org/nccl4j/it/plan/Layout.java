package org.nccl4j.it.plan;

import java.util.ArrayList;
import java.util.List;

/**
 * A division of a job over its GPUs. Ranks are numbered with tensor fastest, then context, data and
 * pipeline, so that tensor-parallel groups stay in a machine.
 *
 * @param tensor ranks that divide each matrix
 * @param context ranks that divide each sequence
 * @param data ranks that divide the batch
 * @param pipeline stages that divide the layers
 * @param sharding what data-parallel ranks divide
 */
record Layout(int tensor, int context, int data, int pipeline, Sharding sharding) {

  /** Ranks with the same weights, which reduce gradients with each other. */
  int replicas() {
    return context * data;
  }

  /**
   * All layouts of a job whose degrees divide what they divide: heads, keys, widths and a machine's
   * GPUs by tensor; a sequence by twice context, for equal work under a causal mask; layers by
   * pipeline.
   *
   * @param shardings to be tried
   * @param mostContext the largest degree of context
   */
  static List<Layout> of(Job job, List<Sharding> shardings, int mostContext) {
    ModelShape model = job.model();
    List<Layout> layouts = new ArrayList<>();
    for (int tensor : divisors(Math.min(job.gpusPerMachine(), job.gpus()))) {
      if (model.heads() % tensor != 0
          || model.kvHeads() % tensor != 0
          || model.ffn() % tensor != 0
          || job.gpus() % tensor != 0
          || job.gpusPerMachine() % tensor != 0) {
        continue;
      }
      for (int pipeline : divisors(job.gpus() / tensor)) {
        if (model.layers() % pipeline != 0) {
          continue;
        }
        for (int context : divisors(job.gpus() / tensor / pipeline)) {
          if (context > mostContext || context > 1 && model.sequence() % (2L * context) != 0) {
            continue;
          }
          int data = job.gpus() / tensor / pipeline / context;
          // Without replicas there is nothing to divide.
          List<Sharding> kinds = context * data == 1 ? List.of(Sharding.ddp) : shardings;
          kinds.forEach(kind -> layouts.add(new Layout(tensor, context, data, pipeline, kind)));
        }
      }
    }
    return layouts;
  }

  private static List<Integer> divisors(int number) {
    List<Integer> divisors = new ArrayList<>();
    for (int each = 1; each <= number; each++) {
      if (number % each == 0) {
        divisors.add(each);
      }
    }
    return divisors;
  }
}
