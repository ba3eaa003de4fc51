package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.check.DataSet;
import org.nccl4j.it.perf.workload.Segment;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * NVLS between machines of GPUs, which here are ranks of this process that say they are on
 * different ones: emulated within a machine, over the network between them. Several ranks share a
 * GPU, but none of one machine. The switch's multicast is not used.
 */
@Tag("gpu")
@Tag("two-gpus")
class NvlsTreeNetGpuTest {
  private static final int MOST_BYTES = 4 << 20;
  private static final CommunicatorConfig EMULATED =
      CommunicatorConfig.defaults()
          .with("NCCL4J_NVLS_MODE", "emulated")
          .withOperationTimeout(Duration.ofSeconds(20));
  private static final CallOptions TREE = CallOptions.defaults().withAlgorithm("NVLSTree");
  private static final CallOptions RING = CallOptions.defaults().withAlgorithm("Ring");

  private static final List<CudaDevice> GPUS = Devices.cuda().list();

  /** All types and operators that it has, by tree and by ring, in place by chance. */
  @ParameterizedTest
  @CsvSource({"aabb, 2, 1024", "aabb, 4, 0", "aab, 2, 4096", "abc, 1, 0"})
  void everyTypeAndOperator(String hosts, int channels, int chunk) throws Exception {
    CommunicatorConfig config =
        EMULATED
            .with("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels))
            .with("NCCL_NVLS_CHUNKSIZE", Integer.toString(chunk));
    try (Ranks ranks = Ranks.onHosts(hosts, GPUS, config)) {
      Communicator first = ranks.communicators.get(0).withOptions(TREE);
      assertEquals(
          Algorithm.NVLS_TREE,
          first.chosenAlgorithm(Operation.ALL_REDUCE, 1000, DataType.FLOAT32).algorithm());
      assertEquals("NET", first.transports().get(hosts.indexOf('b')));
      ranks.run(
          (comm, stream) -> {
            Random random = new Random(channels * 31 + chunk);
            try (DeviceMemory send = comm.device().allocate(MOST_BYTES);
                DeviceMemory recv = comm.device().allocate(MOST_BYTES)) {
              for (DataType type : DataType.values()) {
                for (RedOp op : RedOp.values()) {
                  if (Nvls.has(Operation.ALL_REDUCE, type, op)) {
                    int most = MOST_BYTES / type.bytes();
                    for (int bound : new int[] {40, 3000, most}) {
                      Call call = new Call(type, op, 1 + random.nextInt(bound), random.nextLong());
                      boolean inPlace = random.nextBoolean();
                      call.check(comm, TREE, inPlace ? recv : send, recv, stream);
                      call.check(comm, RING, inPlace ? send : recv, send, stream);
                    }
                  }
                }
              }
            }
          });
    }
  }

  private record Call(DataType type, RedOp op, int count, long seed) {
    /** Compares with what the host computes, which is exact in any order. */
    void check(
        Communicator comm,
        CallOptions options,
        DeviceMemory from,
        DeviceMemory to,
        DeviceStream stream) {
      DataSet data = new DataSet(type, op, comm.nRanks(), count, seed);
      long bytes = (long) count * type.bytes();
      DataSet.poison(to);
      data.fillSend(comm.rank(), from.slice(0, bytes));
      comm.withOptions(options)
          .allReduce(from.slice(0, bytes), to.slice(0, bytes), count, type, op, stream);
      stream.synchronize();
      CheckResult verdict = data.verify(new Segment(0, count, Segment.COMBINED, 0), to);
      assertEquals("", verdict.first(), () -> this + " by " + options + " on rank " + comm.rank());
      int after = (int) Math.min(256, to.size() - bytes);
      assertEquals(0, DataSet.damage(to.slice(bytes, after)), "bytes behind the result of " + this);
    }
  }

  /** A rank that waits for one that never comes reports it at its deadline. */
  @Test
  void aMissingRankIsNamed() throws Exception {
    CommunicatorConfig config = EMULATED.withOperationTimeout(Duration.ofSeconds(3));
    try (Ranks ranks = Ranks.onHosts("aabb", GPUS, config)) {
      int missing = 3;
      List<FutureTask<Void>> done =
          ranks.start(
              (comm, stream) -> {
                if (comm.rank() != missing) {
                  try (DeviceMemory data = comm.device().allocate(MOST_BYTES)) {
                    comm.withOptions(TREE)
                        .allReduce(data, data, 100_000, DataType.FLOAT32, RedOp.SUM, stream);
                    stream.synchronize();
                  }
                }
              });
      for (int rank = 0; rank < missing; rank++) {
        FutureTask<Void> task = done.get(rank);
        String error =
            assertThrows(ExecutionException.class, () -> task.get(300, TimeUnit.SECONDS))
                .getCause()
                .getMessage();
        System.out.println("rank " + rank + ": " + error);
        assertTrue(error.contains("rank " + missing), rank + ": " + error);
      }
    }
  }
}
