package org.nccl4j.device.cuda.nvml;

import java.util.Optional;

/**
 * The NVLink fabric of a GPU, from NVIDIA's management library. GPUs of several hosts with one
 * cluster and one clique reach each other's memory (multi-node NVLink).
 *
 * @param unknown why nothing is known; "" where the rest is
 * @param state how far the GPU's registration is; see {@link #absence}
 * @param status the library's code of how a complete registration went
 * @param clusterUuid 32 hexadecimal digits, all zero where the fabric ends at the machine
 * @param cliqueId which of the cluster's cliques, an unsigned number
 */
public record NvmlFabric(String unknown, int state, int status, String clusterUuid, int cliqueId) {
  /** Bytes of a cluster's number. */
  public static final int UUID_BYTES = 16;

  private static final int COMPLETED = 3; // NVML_GPU_FABRIC_STATE_COMPLETED
  private static final String[] STATES = {"not supported", "not started", "in progress"};

  /** Creates the fabric state of an unknown GPU, with the reason. */
  static NvmlFabric unknown(String why) {
    return new NvmlFabric(why, 0, 0, "0".repeat(2 * UUID_BYTES), 0);
  }

  /** Why the GPU is no part of a complete fabric, as a clause; empty if it is. */
  public Optional<String> absence() {
    if (!unknown.isEmpty()) {
      return Optional.of("its NVLink fabric is not known: " + unknown);
    }
    if (state != COMPLETED) {
      return Optional.of(
          "its registration with an NVLink fabric is "
              + (state >= 0 && state < STATES.length ? STATES[state] : "in state " + state));
    }
    return status == 0
        ? Optional.empty()
        : Optional.of("its registration with the NVLink fabric failed with code " + status);
  }

  /** True if the fabric goes beyond the machine. */
  public boolean isOfSeveralHosts() {
    return absence().isEmpty() && clusterUuid.chars().anyMatch(digit -> digit != '0');
  }
}
