package org.nccl4j.api;

/** The implementation of NVLink SHARP; also the setting NCCL4J_NVLS_MODE. */
public enum NvlsMode {
  /**
   * On GPUs the switch, if NCCL_NVLS_ENABLE, the driver and the topology allow it; on the host
   * device the emulation, if NCCL_ALGO names NVLS.
   */
  AUTO,
  /**
   * The switch, and the cost model may choose NVLS; if the driver or NCCL_NVLS_ENABLE=0 refuses,
   * there is a warning and no NVLS.
   */
  HARDWARE,
  /**
   * Emulation by the devices: the same algorithms, with one access to every rank's memory in place
   * of one access through the switch. Works if ranks reach each other's memory, and moves the data
   * once for each rank.
   */
  EMULATED,
  /** No NVLS. */
  OFF
}
