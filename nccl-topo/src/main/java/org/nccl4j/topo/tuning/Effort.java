package org.nccl4j.topo.tuning;

/**
 * With how much of the device an operation is done.
 *
 * @param channels channels, which are blocks of the kernel
 * @param threads threads of a block
 */
public record Effort(int channels, int threads) {
  /** The same in every process, and made at once, which a record's own is not. */
  @Override
  public int hashCode() {
    return 31 * channels + threads;
  }
}
