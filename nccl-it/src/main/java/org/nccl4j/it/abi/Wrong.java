package org.nccl4j.it.abi;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/** The errors of calls that do not reach a communicator. */
final class Wrong {
  private Wrong() {}

  static InvalidArgumentException argument(String problem, String remedy) {
    return new InvalidArgumentException(ErrorId.ARGUMENT, problem, remedy);
  }

  /**
   * The error of a call that the C side has refused.
   *
   * @param refusal the problem and the remedy, as the C side writes them
   */
  static InvalidArgumentException call(String refusal) {
    String[] parts = refusal.split("\\. Remedy: ", 2);
    return argument(parts[0], parts.length == 2 ? parts[1] : "correct the call");
  }

  static InvalidUsageException usage(String problem, String remedy) {
    return new InvalidUsageException(ErrorId.USAGE, problem, remedy);
  }

  /** The error of a communicator's handle that is not one. */
  static InvalidArgumentException communicator(long handle) {
    return argument(
        "0x%x is not a communicator of this process, or was destroyed".formatted(handle),
        "pass an ncclComm_t that was created and not yet destroyed");
  }
}
