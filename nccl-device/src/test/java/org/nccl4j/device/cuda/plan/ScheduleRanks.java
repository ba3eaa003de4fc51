package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.IntFunction;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.HostKernels;
import org.nccl4j.device.cuda.NativeBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.operation.Algorithm;

/**
 * The schedules of collectives with the arguments of plans, compiled for the host and run for all
 * ranks by schedule_ranks.cc.
 */
record ScheduleRanks(Path folder, HostKernels kernels, CudaDevice device) {
  static ScheduleRanks in(Path folder, CudaDevice device) throws IOException {
    HostKernels kernels =
        HostKernels.in(
                folder,
                "pat",
                "ring.cuh",
                "tree.cuh",
                "hierarchical.cuh",
                "share.cuh",
                "step.cuh",
                "layout.h",
                "algorithms.h")
            .with("schedule");
    NativeBuild.schedules(folder);
    kernels.compile("schedule_ranks.cc", "schedule_ranks", "-O1");
    return new ScheduleRanks(folder, kernels, device);
  }

  /** Runs works of as many ranks, each rank with a communicator of its own. */
  void run(List<CollectiveWork> works, int n, IntFunction<KernelCommunicatorSpec> specs, long seed)
      throws Exception {
    List<ByteArrayOutputStream> all =
        works.stream().map(work -> new ByteArrayOutputStream()).toList();
    for (int rank = 0; rank < n; rank++) {
      try (KernelCommunicator one = device.createKernelCommunicator(specs.apply(rank))) {
        for (int work = 0; work < works.size(); work++) {
          all.get(work).writeBytes(plan(one, works.get(work), n));
        }
      }
    }
    for (int work = 0; work < works.size(); work++) {
      Path file =
          Files.write(Files.createTempFile(folder, "plan", ""), all.get(work).toByteArray());
      String said = kernels.run("schedule_ranks", List.of(file.toString(), Long.toString(seed)));
      assertTrue(said.matches("[1-9][0-9]* steps"), works.get(work) + ": " + said);
    }
  }

  /** The arguments of a rank's plan, and its table of ranks. */
  private static byte[] plan(KernelCommunicator one, CollectiveWork work, int n) {
    Offheap arguments = ((CudaKernelPlan) one.prepare(work)).arguments();
    int rows = work.algorithm() == Algorithm.HIERARCHICAL ? 1 : ConnectionLayout.CHANNELS;
    ByteBuffer table = table(arguments, rows, n);
    int tableBytes = ConnectionLayout.CHANNELS * n * KernelLayout.RANK_BYTES;
    byte[] bytes = new byte[KernelLayout.COLLECTIVE_BYTES + tableBytes];
    arguments.bytes().get(0, bytes, 0, KernelLayout.COLLECTIVE_BYTES);
    table.get(bytes, KernelLayout.COLLECTIVE_BYTES, table.remaining());
    return bytes;
  }

  /** The table of ranks that arguments lead to. */
  static ByteBuffer table(Offheap arguments, int rows, int n) {
    int bytes = rows * n * KernelLayout.RANK_BYTES;
    return NativeMemory.buffer(arguments.getLong(KernelLayout.RING_RANKS), bytes)
        .order(ByteOrder.nativeOrder());
  }
}
