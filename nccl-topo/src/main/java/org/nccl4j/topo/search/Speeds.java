package org.nccl4j.topo.search;

/** The speeds per channel that are tried, fastest first, in GB/s, by GPU generation. */
final class Speeds {
  private static final int HOPPER = 90;
  private static final int BLACKWELL = 100;

  private static final float[] INTRA = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  private static final float[] INTER = {
    48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4f, 1.2f, 0.24f, 0.12f
  };
  private static final float[] INTRA_HOPPER = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  private static final float[] INTER_HOPPER = {
    48, 45, 42, 40, 30, 24, 22, 20, 17.5f, 15, 12, 6, 3, 2.4f, 1.2f, 0.24f, 0.12f
  };
  private static final float[] INTRA_BLACKWELL = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
  private static final float[] INTER_BLACKWELL = {
    96, 86, 80, 48, 45.1f, 42, 40, 30, 24, 22, 20, 17.5f, 15, 12, 6, 3, 2.4f, 1.2f, 0.24f, 0.12f
  };

  private final float[] speeds;
  private int at;

  Speeds(int minSm, boolean inter) {
    if (minSm >= BLACKWELL) {
      speeds = inter ? INTER_BLACKWELL : INTRA_BLACKWELL;
    } else if (minSm >= HOPPER) {
      speeds = inter ? INTER_HOPPER : INTRA_HOPPER;
    } else {
      speeds = inter ? INTER : INTRA;
    }
  }

  /** The fastest that is not above a limit, or the slowest. */
  float startAtMost(float limit) {
    at = 0;
    while (speeds[at] > limit && at < speeds.length - 1) {
      at++;
    }
    return speeds[at];
  }

  boolean hasSlower() {
    return at < speeds.length - 1;
  }

  float peekSlower() {
    return speeds[at + 1];
  }

  float slower() {
    return speeds[++at];
  }

  boolean hasFaster() {
    return at > 0;
  }

  float faster() {
    return speeds[--at];
  }
}
