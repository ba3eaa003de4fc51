package org.nccl4j.it.abi;

/** The numbers of an ncclConfig_t, in the order in which the C side passes them on. */
enum ConfigField {
  BLOCKING,
  CGA_CLUSTER_SIZE,
  MIN_CTAS,
  MAX_CTAS,
  TRAFFIC_CLASS,
  CTA_POLICY,
  NVLS_CTAS,
  CHANNELS_PER_NET_PEER;

  /** The value of a field that is not set, NCCL_CONFIG_UNDEF_INT. */
  static final int UNDEFINED = Integer.MIN_VALUE;

  /** True if the field is set. */
  boolean isIn(int[] numbers) {
    return numbers[ordinal()] != UNDEFINED;
  }

  int of(int[] numbers) {
    return numbers[ordinal()];
  }
}
