package org.nccl4j.device.cuda.plan;

import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.device.DataType;

/**
 * The kernels of one fatbin, which are loaded together.
 *
 * @param file the fatbin's name, without its ending
 * @param kernels those that a communicator can launch, by their names in the sources
 */
record KernelFamily(String file, List<String> kernels) {
  private static final String COPY = "copy";

  private static final List<String> FLAGGED =
      List.of(
          "nccl4j_simple",
          "nccl4j_ll_ring",
          "nccl4j_ll_one_shot",
          "nccl4j_ll128_ring",
          "nccl4j_ll128_one_shot");

  private static final List<String> DIRECT =
      List.of("nccl4j_direct_ll", "nccl4j_direct_window", "nccl4j_direct_beside");

  private static final List<String> NVLS =
      List.of("nccl4j_nvls", "nccl4j_nvls_window", "nccl4j_nvls_ll");

  private static final KernelFamily COPIES =
      new KernelFamily(
          COPY,
          with(
              FLAGGED,
              "nccl4j_p2p",
              "nccl4j_p2p_flagged",
              "nccl4j_copies_tell",
              "nccl4j_copies_await"));

  private static final List<String> REDUCTIONS =
      with(
          FLAGGED,
          "nccl4j_ll_tree",
          "nccl4j_ll_two_shot",
          "nccl4j_ll128_tree",
          "nccl4j_ll128_two_shot");

  private static final KernelFamily DIRECT_COPIES =
      new KernelFamily(
          "direct-" + COPY,
          with(DIRECT, "nccl4j_direct_signal", "nccl4j_direct_wait", "nccl4j_direct_meet"));

  /** Returns the kernels that only copy, over connections. */
  static KernelFamily copies() {
    return COPIES;
  }

  /** Returns the kernels that reduce a type, over connections. */
  static KernelFamily reductions(DataType type) {
    return new KernelFamily(type.label(), REDUCTIONS);
  }

  /** Returns the kernels that only copy, directly between the ranks' buffers. */
  static KernelFamily directCopies() {
    return DIRECT_COPIES;
  }

  /** Returns the kernels that reduce a type, directly between the ranks' buffers. */
  static KernelFamily directReductions(DataType type) {
    return new KernelFamily("direct-" + type.label(), DIRECT);
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
