package org.nccl4j.it.path;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;

/**
 * Times warm all-reduces of rank 0 on GPUs in the calling thread, in bursts that are shorter than
 * the queue of a stream, so that no call waits for a GPU. Arguments: the ranks, a GPU each, then
 * "own", "user" (a stream that is wrapped) or "in-place". docs/benchmarks/warm-calls.sh runs it
 * with a driver that does nothing.
 */
public final class WarmCallTimes {
  private static final int BURST = 100;
  private static final int ROUNDS = 4000;
  private static final int COUNT = 1024;

  private final List<Communicator> ranks;
  private final List<DeviceMemory> from = new ArrayList<>();
  private final List<DeviceMemory> to = new ArrayList<>();
  private final List<DeviceStream> streams = new ArrayList<>();

  private WarmCallTimes(int n, String how) {
    ranks = Communicator.initAll(new ArrayList<Device>(Devices.cuda().list().subList(0, n)));
    for (Communicator rank : ranks) {
      CudaDevice gpu = (CudaDevice) rank.device();
      from.add(gpu.allocate(4 * COUNT));
      to.add(how.equals("in-place") ? from.get(from.size() - 1) : gpu.allocate(4 * COUNT));
      CudaStream own = (CudaStream) gpu.createStream();
      streams.add(how.equals("user") ? gpu.wrapStream(own.handle()) : own);
    }
  }

  public static void main(String[] arguments) {
    int n = Integer.parseInt(arguments[0]);
    WarmCallTimes calls = new WarmCallTimes(n, arguments[1]);
    double[] nanos = new double[ROUNDS];
    for (int round = -ROUNDS; round < ROUNDS; round++) {
      double took = calls.round();
      if (round >= 0) {
        nanos[round] = took;
      }
    }
    Arrays.sort(nanos);
    System.out.printf(
        Locale.ROOT,
        "Java %d, %d rank(s), %s: %.0f ns a call (median), %.0f (least)%n",
        Runtime.version().feature(),
        n,
        arguments[1],
        nanos[ROUNDS / 2],
        nanos[0]);
    System.exit(0);
  }

  /** A burst of each rank, and the wait for all; nanoseconds of a call of rank 0. */
  private double round() {
    long begin = System.nanoTime();
    burst(0);
    double took = (System.nanoTime() - begin) / (double) BURST;
    for (int rank = 1; rank < ranks.size(); rank++) {
      burst(rank);
    }
    streams.forEach(DeviceStream::synchronize);
    return took;
  }

  private void burst(int rank) {
    for (int i = 0; i < BURST; i++) {
      ranks
          .get(rank)
          .allReduce(
              from.get(rank), to.get(rank), COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
    }
  }
}
