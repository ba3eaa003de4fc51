package org.nccl4j.device.cuda.module;

/** The kernels of sends and receives, by what the messages of a launch need (family.cu). */
public enum MessageKernel {
  /** Any messages, and copies of a rank's own. */
  ANY("nccl4j_p2p"),

  /** LL and LL128, with no offers, and copies. */
  FLAGGED("nccl4j_p2p_flagged"),

  /** LL alone. */
  SMALL("nccl4j_p2p_small");

  private final String function;

  MessageKernel(String function) {
    this.function = function;
  }

  String function() {
    return function;
  }
}
