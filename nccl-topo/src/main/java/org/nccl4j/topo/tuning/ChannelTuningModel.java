package org.nccl4j.topo.tuning;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.system.Bandwidths;

/**
 * The channels and threads of an operation: small operations get fewer, so that each thread has
 * work. Immutable; a query allocates only its result.
 */
public final class ChannelTuningModel {
  private static final int WARP = 32;
  private static final int MAX_THREADS = 640;
  private static final int SIMPLE_THREADS = 512;
  private static final int SLOW_RING_THREADS = 256;
  private static final int MIN_WARPS = 3;
  private static final int[] THRESHOLDS = {8, 8, 64};

  private final CommGraph comm;
  private final int[][] maxThreads = new int[Algorithm.values().length][Protocol.values().length];
  private final long[][] thresholds = new long[Algorithm.values().length][Protocol.values().length];

  private ChannelTuningModel(CommGraph comm, TopoSettings settings) {
    this.comm = comm;
    for (Algorithm algorithm : Algorithm.ofNccl()) {
      for (Protocol protocol : Protocol.values()) {
        maxThreads[algorithm.ordinal()][protocol.ordinal()] =
            mostThreads(algorithm, protocol, settings);
        thresholds[algorithm.ordinal()][protocol.ordinal()] = threshold(algorithm, protocol);
      }
    }
    overrideThresholds(settings.get(TopoSettings.NCCL_THREAD_THRESHOLDS));
  }

  /** The model of a communicator, under NCCL_NTHREADS, NCCL_LL128_NTHREADS and the like. */
  public static ChannelTuningModel of(CommGraph comm, TopoSettings settings) {
    return new ChannelTuningModel(comm, settings);
  }

  private int mostThreads(Algorithm algorithm, Protocol protocol, TopoSettings settings) {
    if (algorithm != Algorithm.RING && algorithm != Algorithm.TREE) {
      return MAX_THREADS;
    }
    if (protocol == Protocol.LL128) {
      int wanted = settings.get(TopoSettings.NCCL_LL128_NTHREADS);
      return bounded(wanted, MAX_THREADS / 4, MAX_THREADS, MAX_THREADS);
    }
    AlignedGraph ring = comm.of(GraphKind.RING);
    boolean slow =
        protocol == Protocol.SIMPLE
            && algorithm == Algorithm.RING
            && ring.bwIntra() * ring.nChannels() <= Bandwidths.PCI_GEN3;
    int otherwise = slow ? SLOW_RING_THREADS : SIMPLE_THREADS;
    return bounded(settings.get(TopoSettings.NCCL_NTHREADS), 2 * WARP, SIMPLE_THREADS, otherwise);
  }

  private static int bounded(int wanted, int min, int max, int otherwise) {
    if (wanted <= 0) {
      return otherwise;
    }
    return wanted % WARP != 0 ? max : Math.max(min, Math.min(max, wanted));
  }

  private long threshold(Algorithm algorithm, Protocol protocol) {
    long threshold = THRESHOLDS[protocol.ordinal()];
    boolean perRank = algorithm == Algorithm.RING && protocol == Protocol.LL;
    return perRank ? threshold * comm.shape().nRanks() : threshold;
  }

  /** Six numbers: LL, LL128 and Simple of trees, then of rings. */
  private void overrideThresholds(String text) {
    String[] numbers = text.strip().split("\\s+");
    for (int i = 0; i < Math.min(6, numbers.length); i++) {
      if (numbers[i].matches("[0-9]{1,9}")) {
        thresholds[i / 3][i % 3] = Long.parseLong(numbers[i]);
      }
    }
  }

  /** The channels and threads for an operation of a size. */
  public ChannelTuning of(Algorithm algorithm, Protocol protocol, long bytes) {
    int most = maxThreads[algorithm.ordinal()][protocol.ordinal()];
    long threshold = thresholds[algorithm.ordinal()][protocol.ordinal()];
    int channels = comm.nChannels();
    int threads = most;
    if (algorithm.isNvls()) {
      boolean perNode = comm.shape().nNodes() > 1 && algorithm == Algorithm.NVLS;
      channels = perNode ? Math.min(comm.nvlsChannels(), comm.nChannels()) : comm.nvlsChannels();
    } else {
      while (channels > 1 && bytes < channels * (long) threads * threshold) {
        channels--;
      }
      while (threads % 128 == 0 && bytes < channels * (long) threads * threshold) {
        threads /= 2;
      }
    }
    return new ChannelTuning(channels, withSyncWarps(algorithm, protocol, threads));
  }

  private static int withSyncWarps(Algorithm algorithm, Protocol protocol, int threads) {
    if (algorithm == Algorithm.TREE || algorithm == Algorithm.PAT) {
      return MAX_THREADS;
    }
    int extra = protocol == Protocol.SIMPLE && algorithm == Algorithm.RING ? WARP : 0;
    return Math.max(MIN_WARPS * WARP, threads + extra);
  }
}
