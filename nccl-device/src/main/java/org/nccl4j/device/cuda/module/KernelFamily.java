package org.nccl4j.device.cuda.module;

import java.util.List;
import java.util.Locale;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.nccl4j.device.DataType;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * The kernels of one fatbin, which are loaded together.
 *
 * @param file the fatbin's name, without its ending
 * @param kernels those that a communicator can launch, by their names in the sources
 */
record KernelFamily(String file, List<String> kernels) {
  private static final String COPY = "copy";

  private static final List<String> DIRECT =
      List.of(
          "nccl4j_direct_ll",
          "nccl4j_direct_ll_group",
          "nccl4j_direct_ll128",
          "nccl4j_direct_window",
          "nccl4j_direct_beside");

  private static final List<String> NVLS =
      List.of("nccl4j_nvls", "nccl4j_nvls_window", "nccl4j_nvls_ll");

  private static final List<String> EXPERTS =
      List.of(
          "nccl4j_dispatch",
          "nccl4j_dispatch_fp8",
          "nccl4j_combine",
          "nccl4j_expert_rows",
          "nccl4j_expert_fp8",
          "nccl4j_expert_sum");

  private static final String RAGGED_KERNEL = "nccl4j_ragged";

  private static final KernelFamily RAGGED =
      new KernelFamily(
          "ragged",
          Stream.concat(
                  Stream.of(RAGGED_KERNEL),
                  Stream.of(DataType.values()).map(KernelFamily::raggedSum))
              .toList());

  private static final KernelFamily COPIES =
      new KernelFamily(
          COPY,
          with(
              overConnections(operation -> !operation.reduces()),
              MessageKernel.ANY.function(),
              MessageKernel.FLAGGED.function(),
              MessageKernel.SMALL.function(),
              "nccl4j_copies_tell",
              "nccl4j_copies_await"));

  private static final List<String> REDUCTIONS = overConnections(Operation::reduces);

  private static final KernelFamily DIRECT_COPIES =
      new KernelFamily(
          "direct-" + COPY,
          with(DIRECT, "nccl4j_direct_signal", "nccl4j_direct_wait", "nccl4j_direct_meet"));

  /** The kernel of an algorithm over connections; Simple has one for all algorithms. */
  static String kernel(Algorithm algorithm, Protocol protocol) {
    String of = "nccl4j_" + protocol.name().toLowerCase(Locale.ROOT);
    return protocol == Protocol.SIMPLE ? of : of + "_" + algorithm.name().toLowerCase(Locale.ROOT);
  }

  /** The kernels of some collectives by all algorithms that GPUs have over connections. */
  private static List<String> overConnections(Predicate<Operation> which) {
    return Operation.collectives().stream()
        .filter(which)
        .flatMap(operation -> Algorithm.overConnections(operation, /* all= */ true).stream())
        .flatMap(algorithm -> Stream.of(Protocol.values()).map(p -> kernel(algorithm, p)))
        .distinct()
        .toList();
  }

  /** Returns the kernels that only copy, over connections. */
  static KernelFamily copies() {
    return COPIES;
  }

  /** Returns the kernels that reduce a type, over connections. */
  static KernelFamily reductions(DataType type) {
    return new KernelFamily(type.label(), REDUCTIONS);
  }

  /** Returns the kernels of quantised sums of a type. */
  static KernelFamily quantised(DataType type) {
    return new KernelFamily(
        "quantise-" + type.label(),
        List.of("nccl4j_quantise", "nccl4j_quantised_sum", "nccl4j_dequantise"));
  }

  /** Returns the kernels that only copy, directly between the ranks' buffers. */
  static KernelFamily directCopies() {
    return DIRECT_COPIES;
  }

  /** Returns the kernels that reduce a type, directly between the ranks' buffers. */
  static KernelFamily directReductions(DataType type) {
    return new KernelFamily("direct-" + type.label(), DIRECT);
  }

  /** Returns the kernels that bring tokens of a type to experts and their outputs back. */
  static KernelFamily experts(DataType type) {
    return new KernelFamily("expert-" + type.label(), EXPERTS);
  }

  /** Returns the kernels of exchanges by counts in device memory. */
  static KernelFamily ragged() {
    return RAGGED;
  }

  /** The one of them that exchanges. */
  static String raggedExchange() {
    return RAGGED_KERNEL;
  }

  /** The one of them that combines copies of a type. */
  static String raggedSum(DataType type) {
    return "nccl4j_ragged_sum_" + type.label();
  }

  /** Returns the kernels that only copy, through NVLS. */
  static KernelFamily nvlsCopies(boolean emulated) {
    return new KernelFamily("nvls_" + COPY, inForm(NVLS, emulated));
  }

  /** Returns the kernels that reduce a type through NVLS. */
  static KernelFamily nvlsReductions(DataType type, boolean emulated) {
    return new KernelFamily("nvls_" + type.label(), inForm(NVLS, emulated));
  }

  /** Returns the kernels that reduce a type through NVLS between machines. */
  static KernelFamily nvlsTree(DataType type, boolean emulated) {
    return new KernelFamily(
        "nvls-tree_" + type.label(), inForm(List.of("nccl4j_nvls_tree"), emulated));
  }

  /** A kernel's name in the form that works with the switch, or in the emulated one. */
  static String inForm(String name, boolean emulated) {
    return name + (emulated ? "_emulated" : "_driver");
  }

  private static List<String> inForm(List<String> names, boolean emulated) {
    return names.stream().map(name -> inForm(name, emulated)).toList();
  }

  private static List<String> with(List<String> names, String... more) {
    return Stream.concat(names.stream(), Stream.of(more)).toList();
  }
}
