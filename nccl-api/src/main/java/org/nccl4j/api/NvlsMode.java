package org.nccl4j.api;

/** The implementation of NVLink SHARP; also the setting NCCL4J_NVLS_MODE. */
public enum NvlsMode {
  /**
   * On GPUs the switch, where NCCL_NVLS_ENABLE, the driver and the topology have it; on the host
   * device the emulation, where NCCL_ALGO names NVLS.
   */
  AUTO,
  /**
   * The switch, and the cost model may choose NVLS; where the driver or NCCL_NVLS_ENABLE=0 refuses,
   * there is a warning and no NVLS.
   */
  HARDWARE,
  /**
   * The devices, in the switch's place: the same algorithms, with an access to every rank's memory
   * where the switch would do one. Works wherever ranks reach each other's memory, and moves as
   * many times the bytes.
   */
  EMULATED,
  /** Nobody. */
  OFF
}
