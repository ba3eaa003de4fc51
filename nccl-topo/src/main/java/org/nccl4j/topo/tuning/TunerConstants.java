package org.nccl4j.topo.tuning;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/**
 * Measured constants by generation of GPU: latencies in microseconds, bandwidths in GB/s. The
 * values are NCCL 2.30's defaults. Rows of algorithms are in NCCL's order, rows of protocols LL,
 * LL128, Simple; rows of machines are one, two, and four or more nodes.
 */
final class TunerConstants {
  /** The links of an algorithm's step. */
  enum Hardware {
    NVLINK,
    PCI,
    NET
  }

  /** Generations of GPUs that were measured. */
  enum Generation {
    VOLTA,
    AMPERE,
    HOPPER,
    BLACKWELL;

    static Generation of(int sm) {
      if (sm >= 100) {
        return BLACKWELL;
      }
      if (sm >= 90) {
        return HOPPER;
      }
      return sm >= 80 ? AMPERE : VOLTA;
    }
  }

  private static final double[] ZERO = {0, 0, 0};

  private static final double[][] BASE = {
    {6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, ZERO, ZERO, ZERO, ZERO, {8.0, 8.0, 8.0}
  };

  private static final double[][][] STEP = {
    {
      {0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 25}, {0, 0, 25}, {0, 0, 4}
    },
    {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, ZERO, ZERO, {0, 0, 4.0}},
    {{5.0, 8.5, 14}, {2.7, 4.0, 14.0}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}}
  };

  private static final double[][] LL_MAX = {
    {39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}
  };

  private static final double[][] RING_LL128 = {
    {20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {40.0, 40.0, 40.0}
  };

  private static final double[][] TREE_LL128 = {
    {20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}
  };

  private static final double[][] TREE = {
    {26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}
  };

  private static final double[][] NVLS_TREE = {
    {26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 80.0}
  };

  private static final float[] NVLS_EFFICIENCY = {0.0f, 0.0f, 0.85f, 0.74f};

  /** Medium trees do not stick to the model; by powers of two from 64 B. */
  private static final float[][] TREE_CORRECTION = {
    {
      1, 1, 1, 1, .9f, .8f, .7f, .7f, .7f, .7f, .6f, .5f, .4f, .4f, .5f, .6f, .7f, .8f, .9f, 1, 1,
      1, 1, 1
    },
    {
      1, 1, 1, 1, 1, .9f, .8f, .8f, .8f, .7f, .6f, .6f, .6f, .6f, .6f, .6f, .8f, .9f, .9f, .9f, .9f,
      1, 1, 1
    },
    {
      .9f, .9f, .9f, .9f, .9f, .9f, .9f, .8f, .7f, .6f, .6f, .5f, .5f, .5f, .5f, .6f, .7f, .8f, .7f,
      .7f, .8f, .9f, .9f, .9f
    }
  };

  private TunerConstants() {}

  static double base(Algorithm algorithm, Protocol protocol) {
    return BASE[row(algorithm)][protocol.ordinal()];
  }

  static double step(Hardware hardware, Algorithm algorithm, Protocol protocol) {
    return STEP[hardware.ordinal()][row(algorithm)][protocol.ordinal()];
  }

  private static int row(Algorithm algorithm) {
    return Algorithm.ofNccl().indexOf(algorithm);
  }

  private static int column(int nNodes) {
    return Math.min(nNodes, 3) - 1;
  }

  /** Over several nodes the CPU's vendor decides, within one the GPU. */
  static double llMax(Generation generation, int nNodes, boolean amdOrMixed) {
    int row = nNodes == 1 ? generation.ordinal() : amdOrMixed ? 1 : 0;
    return LL_MAX[row][column(nNodes)];
  }

  static double ringLl128(Generation generation, int nNodes) {
    return RING_LL128[generation.ordinal()][column(nNodes)];
  }

  static double treeLl128(Generation generation, int nNodes) {
    return TREE_LL128[generation.ordinal()][column(nNodes)];
  }

  static double tree(Generation generation, int nNodes) {
    return TREE[generation.ordinal()][column(nNodes)];
  }

  static double nvlsTree(Generation generation, int nNodes) {
    return NVLS_TREE[generation.ordinal()][column(nNodes)];
  }

  static float nvlsEfficiency(Generation generation) {
    return NVLS_EFFICIENCY[generation.ordinal()];
  }

  static int corrections() {
    return TREE_CORRECTION[0].length;
  }

  static float treeCorrection(Protocol protocol, int power) {
    return TREE_CORRECTION[protocol.ordinal()][power];
  }
}
