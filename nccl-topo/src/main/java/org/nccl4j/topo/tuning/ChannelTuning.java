package org.nccl4j.topo.tuning;

/**
 * The channels and threads that an operation uses.
 *
 * @param channels channels, which are blocks of the kernel
 * @param threads threads of a block
 */
public record ChannelTuning(int channels, int threads) {
  /** The same in every process, and made at once, which a record's own is not. */
  @Override
  public int hashCode() {
    return 31 * channels + threads;
  }
}
