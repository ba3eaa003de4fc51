package org.nccl4j.it.plan;

import java.util.ArrayList;
import java.util.List;

/**
 * A division of a job over its GPUs. Ranks are numbered with tensor fastest, then context, data and
 * pipeline, so that tensor-parallel groups stay in a machine. Ranks that divide the experts are
 * neighbours among the replicas.
 *
 * @param tensor ranks that divide each matrix
 * @param context ranks that divide each sequence
 * @param data ranks that divide the batch
 * @param pipeline stages that divide the layers
 * @param expert replicas that divide the experts of each layer; 1 without experts
 * @param sharding what data-parallel ranks divide
 */
record Layout(int tensor, int context, int data, int pipeline, int expert, Sharding sharding) {

  /** The largest degrees of context and expert that are tried. */
  record Most(int context, int expert) {}

  /** The layers of the stages. */
  Stages stages(ModelShape model) {
    return new Stages(model.layers(), pipeline);
  }

  /** Ranks with the same weights outside the experts, which reduce gradients with each other. */
  int replicas() {
    return context * data;
  }

  /** Ranks with the same experts. */
  int expertReplicas() {
    return replicas() / expert;
  }

  /** The degrees to read. */
  String describe(ModelShape model) {
    Stages stages = stages(model);
    return "tensor %d, context %d, %sdata %d, pipeline %d%s, %s"
        .formatted(
            tensor,
            context,
            model.hasExperts() ? "expert %d, ".formatted(expert) : "",
            data,
            pipeline,
            stages.areEqual() ? "" : " (%s layers)".formatted(stages),
            sharding);
  }

  /**
   * All layouts of a job whose degrees divide what they divide: heads, keys, widths and a machine's
   * GPUs by tensor; a sequence by twice context, for equal work under a causal mask; experts and
   * replicas by expert. Stages have a layer or more. Where only some layers have experts, stages
   * have equally many of these, but for the model's first layers without them.
   *
   * @param shardings to be tried
   */
  static List<Layout> of(Job job, List<Sharding> shardings, Most most) {
    ModelShape model = job.model();
    List<Layout> layouts = new ArrayList<>();
    for (int tensor : divisors(Math.min(job.gpusPerMachine(), job.gpus()))) {
      if (model.heads() % tensor != 0
          || model.kvHeads() % tensor != 0
          || model.ffn() % tensor != 0
          || model.experts().width() % tensor != 0
          || job.gpus() % tensor != 0
          || job.gpusPerMachine() % tensor != 0) {
        continue;
      }
      for (int pipeline : divisors(job.gpus() / tensor)) {
        int every = model.experts().every();
        if (pipeline > model.layers()
            || every > 1 && model.layers() % ((long) pipeline * every) != 0) {
          continue;
        }
        for (int context : divisors(job.gpus() / tensor / pipeline)) {
          if (context > most.context || context > 1 && model.sequence() % (2L * context) != 0) {
            continue;
          }
          int data = job.gpus() / tensor / pipeline / context;
          // Without replicas there is nothing to divide.
          List<Sharding> kinds = context * data == 1 ? List.of(Sharding.ddp) : shardings;
          for (int expert : expertDegrees(model, context * data, most)) {
            kinds.forEach(
                kind -> layouts.add(new Layout(tensor, context, data, pipeline, expert, kind)));
          }
        }
      }
    }
    return layouts;
  }

  private static List<Integer> expertDegrees(ModelShape model, int replicas, Most most) {
    return model.hasExperts()
        ? divisors(model.experts().number()).stream()
            .filter(degree -> degree <= most.expert && replicas % degree == 0)
            .toList()
        : List.of(1);
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
