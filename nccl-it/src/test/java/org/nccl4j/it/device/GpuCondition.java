package org.nccl4j.it.device;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.nccl4j.device.cuda.CudaDevices;

/**
 * Skips tests that need GPUs where there are none. JUnit finds it in the archive of {@code nccl
 * dist}, whose {@code gpu-tests} runs no others.
 */
public final class GpuCondition implements ExecutionCondition {
  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    return context.getTags().contains("gpu")
        ? CudaDevices.probe()
            .absence()
            .map(ConditionEvaluationResult::disabled)
            .orElseGet(() -> ConditionEvaluationResult.enabled("there are GPUs"))
        : ConditionEvaluationResult.enabled("it needs no GPUs, or its parts say");
  }
}
