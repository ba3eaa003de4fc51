package org.nccl4j.it.api;

import java.time.Duration;
import java.util.Arrays;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;

/**
 * Measures what is around operations: the recorder, a split, a close. The figures are in
 * docs/benchmarks/communicators.md.
 */
@EnabledIfSystemProperty(named = "nccl4j.measure", matches = "true")
@Timeout(600)
class CommunicatorCostTest {
  @Test
  void theRecorder() {
    FlightRecorder log = FlightRecorder.unread();
    long shape = CallShape.of(4, 7, 0, 0);
    int rounds = 100_000_000;
    double best = Double.MAX_VALUE;
    for (int repeat = 0; repeat < 7; repeat++) {
      long start = System.nanoTime();
      for (int i = 0; i < rounds; i++) {
        log.collective(shape, i);
      }
      best = Math.min(best, (double) (System.nanoTime() - start) / rounds);
    }
    System.out.printf("recording an operation: %.2f ns%n", best);
  }

  @Test
  void anAllReduceOfEightBytes() throws Exception {
    try (Ranks ranks = new Ranks(1)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(2, i -> 1)) {
              double best = Double.MAX_VALUE;
              for (int repeat = 0; repeat < 10; repeat++) {
                long start = System.nanoTime();
                for (int i = 0; i < 2_000_000; i++) {
                  comm.allReduce(data, data, 2, DataType.FLOAT32, RedOp.MAX, stream);
                  stream.synchronize();
                }
                best = Math.min(best, (System.nanoTime() - start) / 2e6);
              }
              System.out.printf("all-reduce of 8 bytes, 1 rank: %.1f ns%n", best);
            }
          });
    }
  }

  @Test
  void splittingAndClosing() throws Exception {
    double[][] splits = new double[8][200];
    double[][] closes = new double[8][200];
    try (Ranks ranks = new Ranks(8)) {
      ranks.run(
          (comm, stream) -> {
            for (int i = 0; i < 200; i++) {
              long start = System.nanoTime();
              Optional<Communicator> child = comm.split(comm.rank() % 2, comm.rank());
              long made = System.nanoTime();
              child.orElseThrow().close(Duration.ofSeconds(1));
              splits[comm.rank()][i] = (made - start) / 1e6;
              closes[comm.rank()][i] = (System.nanoTime() - made) / 1e6;
            }
          });
    }
    System.out.printf(
        "split of 8 ranks: median %.3f ms; close %.3f ms%n", mid(splits), mid(closes));
    double[] last = new double[20];
    for (int i = 0; i < last.length; i++) {
      Ranks ranks = new Ranks(8);
      long start = System.nanoTime();
      ranks.communicators.forEach(Communicator::close);
      last[i] = (System.nanoTime() - start) / 1e6;
      ranks.close();
    }
    Arrays.sort(last);
    System.out.printf("close of a communicator of 8 ranks: median %.2f ms%n", last[10]);
  }

  private static double mid(double[][] times) {
    double[] all = Arrays.stream(times).flatMapToDouble(t -> Arrays.stream(t).skip(50)).toArray();
    Arrays.sort(all);
    return all[all.length / 2];
  }
}
