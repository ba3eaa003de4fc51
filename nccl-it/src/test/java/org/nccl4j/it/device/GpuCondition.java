package org.nccl4j.it.device;

import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.nccl4j.api.Devices;
import org.nccl4j.device.cuda.CudaDevices;

/**
 * Skips tests tagged {@code gpu} where there is no GPU, and those also tagged {@code two-gpus}
 * where there is one. JUnit finds it in the archive of {@code nccl dist}, whose {@code gpu-tests}
 * runs no others.
 */
public final class GpuCondition implements ExecutionCondition {
  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    if (!context.getTags().contains("gpu")) {
      return ConditionEvaluationResult.enabled("it needs no GPUs, or its parts say");
    }
    CudaDevices gpus = Devices.cuda();
    return of(context.getTags(), gpus.absence(), gpus.list().size());
  }

  /**
   * For a test that needs GPUs.
   *
   * @param absence why there are no GPUs, if so
   */
  static ConditionEvaluationResult of(Set<String> tags, Optional<String> absence, int gpus) {
    if (absence.isPresent()) {
      return ConditionEvaluationResult.disabled(absence.get());
    }
    return gpus < 2 && tags.contains("two-gpus")
        ? ConditionEvaluationResult.disabled(
            "needs two GPUs, of which one is seen: it is about what lies between them, or its ranks"
                + " would wait for each other's kernels and copies in one GPU's queues")
        : ConditionEvaluationResult.enabled("there are GPUs");
  }
}
