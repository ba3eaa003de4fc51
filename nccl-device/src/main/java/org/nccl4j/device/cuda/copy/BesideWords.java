package org.nccl4j.device.cuda.copy;

/**
 * Words of launches beside copy engines, as offsets from {@link BesideArguments#ENGINE}: those that
 * streams wait for or write. As in src/main/cuda/direct_layout.h, which a test compares.
 */
final class BesideWords {
  /** The last launch whose copies may begin; written by the kernel. */
  static final int GO = 0;

  /** The last launch whose copies have ended. */
  static final int ENDED = 128;

  /** {@link #COPIES} times the other rank's launch, plus its arrived copies. */
  static final int CAME = 256;

  /** The other rank's last launch whose sums have all arrived. */
  static final int GIVEN = 464;

  /** {@link #COPIES} times the launch, plus its summed copies; written by the kernel. */
  static final int SUMMED = 480;

  /** Bytes of all words. */
  static final int BYTES = 1024;

  /** A copy's number is below this. */
  static final int COPIES = 64;

  private BesideWords() {}
}
