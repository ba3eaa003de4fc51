package org.nccl4j.it.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.operation.Operation;

/**
 * The calls of one kind that the busiest GPU makes in a step.
 *
 * @param axis the degree of parallelism that needs them
 * @param operation the collective; SEND between neighbouring stages; DISPATCH and COMBINE are
 *     all-to-alls
 * @param ranks of each group
 * @param first rank of a group, the slowest one
 * @param stride between the ranks of a group
 * @param bytes of one call: the larger of what a rank passes in and gets out
 * @param calls in a step
 */
record Traffic(
    Axis axis, Operation operation, int ranks, int first, int stride, long bytes, long calls) {

  /** The degrees of parallelism, in the order of the table. */
  enum Axis {
    tensor("#4878a8"),
    context("#8a6bb1"),
    expert("#b8596b"),
    pipeline("#d08a2e"),
    data("#5a9a5a");

    private final String colour;

    Axis(String colour) {
      this.colour = colour;
    }

    /** The degrees that a model has: experts are divided only where there are some. */
    static List<Axis> of(ModelShape model) {
      return Stream.of(values()).filter(axis -> axis != expert || model.hasExperts()).toList();
    }

    /** In the picture. */
    String colour() {
      return colour;
    }

    /** True if the next computation needs the result, so that it cannot overlap. */
    boolean exposed() {
      return this != data;
    }
  }

  /** The operation whose choices the planner makes for it. */
  Operation planned() {
    return operation == Operation.DISPATCH || operation == Operation.COMBINE
        ? Operation.ALL_TO_ALL
        : operation;
  }

  /** The traffic of a layout's last stage. */
  static List<Traffic> of(Job job, Layout layout) {
    return of(job, layout, layout.pipeline() - 1);
  }

  /** The traffic of a stage; empty on one GPU. docs/guides/plan.md has the formulas. */
  static List<Traffic> of(Job job, Layout layout, int stage) {
    return new Calls(job, layout, stage).all();
  }

  /** Collects the calls of a layout. */
  private static final class Calls {
    private final Job job;
    private final Layout layout;
    private final long size;
    private final long micro;
    private final long layers;

    /** Layers of the stage with experts. */
    private final long routed;

    private final boolean isFirst;
    private final boolean isLast;

    /** Times that a layer's forward pass runs. */
    private final long forward;

    /** Bytes of the residual stream of a micro-batch's tokens on a GPU. */
    private final long stream;

    private final List<Traffic> all = new ArrayList<>();

    Calls(Job job, Layout layout, int stage) {
      ModelShape model = job.model();
      this.job = job;
      this.layout = layout;
      this.size = job.type().bytes();
      this.micro = job.microBatches(layout);
      this.layers = layout.stages(model).of(stage);
      this.routed = model.expertLayers(stage, layout.stages(model));
      this.isFirst = stage == 0;
      this.isLast = stage == layout.pipeline() - 1;
      this.forward = job.recompute() ? 2 : 1;
      this.stream = tokens() / layout.context() * model.hidden() * size;
    }

    /** Tokens of a micro-batch. */
    private long tokens() {
      return (long) job.microBatch() * job.model().sequence();
    }

    List<Traffic> all() {
      if (layout.tensor() > 1) {
        tensor();
      }
      if (layout.context() > 1) {
        context();
      }
      if (layout.expert() > 1) {
        expert();
      }
      if (layout.pipeline() > 1) {
        pipeline();
      }
      if (layout.replicas() > 1) {
        data();
      }
      return all;
    }

    /**
     * Each layer has two blocks, whose sums are needed in each forward pass and once backward.
     * Shared experts are a part of their layer's block, unless others get its tokens by a dispatch.
     */
    private void tensor() {
      int ranks = layout.tensor();
      // The embedding's sum is in the first stage, the output matrix's in the last.
      long ends = ((isFirst ? 1 : 0) + (isLast ? 1 : 0)) * micro;
      if (job.sequenceParallel()) {
        // Backward gathers each block's input once more, since a rank keeps its own tokens alone.
        long dispatched = layout.expert() > 1 ? routed : 0;
        boolean shares = job.model().experts().shared() > 0;
        long blocks = micro * (2 * layers - (shares ? 0 : dispatched));
        long gathers = forward + 2;
        long scatters = forward + 1;
        add(Axis.tensor, Operation.ALL_GATHER, ranks, 1, stream, gathers * blocks + ends);
        add(Axis.tensor, Operation.REDUCE_SCATTER, ranks, 1, stream, scatters * blocks + ends);
        // After a dispatch, a block has each token as often as the token has experts.
        long bytes = stream * job.model().experts().perToken();
        add(Axis.tensor, Operation.ALL_GATHER, ranks, 1, bytes, gathers * micro * dispatched);
        add(Axis.tensor, Operation.REDUCE_SCATTER, ranks, 1, bytes, scatters * micro * dispatched);
      } else {
        long sums = 2 * (forward + 1) * micro * layers;
        add(Axis.tensor, Operation.ALL_REDUCE, ranks, 1, stream, sums + ends);
      }
    }

    /** Keys and values are gathered forward and again backward, and their gradients scattered. */
    private void context() {
      long bytes = tokens() * job.model().exchangedWidth(layout.tensor()) * size;
      int ranks = layout.context();
      int stride = layout.tensor();
      long passes = micro * layers;
      add(Axis.context, Operation.ALL_GATHER, ranks, stride, bytes, (forward + 1) * passes);
      add(Axis.context, Operation.REDUCE_SCATTER, ranks, stride, bytes, passes);
    }

    /**
     * Tokens go to the ranks of their experts and come back, and the gradients likewise. Ranks of a
     * tensor-parallel group each send all their group's tokens, or their own alone if they divide
     * tokens.
     */
    private void expert() {
      long senders = job.sequenceParallel() ? layout.tensor() : 1;
      long copies = tokens() * job.model().experts().perToken() / (layout.context() * senders);
      int ranks = layout.expert();
      int stride = layout.tensor();
      long calls = (forward + 1) * micro * routed;
      long back = copies * job.model().hidden() * size;
      add(Axis.expert, Operation.DISPATCH, ranks, stride, copies * job.dispatchBytes(), calls);
      add(Axis.expert, Operation.COMBINE, ranks, stride, back, calls);
    }

    /** A stage passes each micro-batch on, and its gradient back, at the slowest of its borders. */
    private void pipeline() {
      int stride = layout.tensor() * layout.replicas();
      int machine = job.gpusPerMachine();
      boolean leaves = stride < machine && job.gpus() > machine;
      long bytes = job.sequenceParallel() ? stream / layout.tensor() : stream;
      int first = leaves ? machine - stride : 0;
      all.add(new Traffic(Axis.pipeline, Operation.SEND, 2, first, stride, bytes, 2 * micro));
    }

    /**
     * One call for each layer, one for its experts on the ranks that have the same ones, and one
     * for an embedding of the first stage or the last.
     */
    private void data() {
      ModelShape model = job.model();
      data(1, model.layerParameters(), layers - routed);
      data(1, model.routedParameters(), routed);
      long experts = model.experts().number() / layout.expert();
      data(layout.expert(), experts * model.expertParameters(), routed);
      boolean both = isFirst && isLast && !model.tied();
      data(1, model.embeddingParameters(), both ? 2 : isFirst || isLast ? 1 : 0);
    }

    /**
     * Adds calls for parameters.
     *
     * @param apart neighbouring replicas of which each has others
     */
    private void data(int apart, long parameters, long number) {
      int ranks = layout.replicas() / apart;
      int stride = layout.tensor() * apart;
      long bytes = parameters / layout.tensor() * size;
      switch (layout.sharding()) {
        case ddp -> add(Axis.data, Operation.ALL_REDUCE, ranks, stride, bytes, number);
        case zero1 -> {
          add(Axis.data, Operation.REDUCE_SCATTER, ranks, stride, bytes, number);
          add(Axis.data, Operation.ALL_GATHER, ranks, stride, bytes, number);
        }
        case fsdp -> {
          add(Axis.data, Operation.ALL_GATHER, ranks, stride, bytes, 2 * micro * number);
          add(Axis.data, Operation.REDUCE_SCATTER, ranks, stride, bytes, micro * number);
        }
      }
    }

    /** Calls of the first group, or of the first one that leaves its machine if others do not. */
    private void add(
        Axis axis, Operation operation, int ranks, int stride, long bytes, long calls) {
      if (ranks == 1 || calls == 0) {
        return;
      }
      int machine = job.gpusPerMachine();
      long span = (long) ranks * stride;
      boolean leaves = span < machine && machine % span != 0 && job.gpus() > machine;
      int first = leaves ? (int) (machine / span * span) : 0;
      all.add(new Traffic(axis, operation, ranks, first, stride, bytes, calls));
    }
  }
}
