package org.nccl4j.it.api;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/**
 * Times of collectives between windows, from 128 KiB to 8 MiB: single launches, and graphs of
 * several, in microseconds an operation by the host's clock. On all GPUs; two ranks share the only
 * one, whose kernels then follow each other as elsewhere, but no link is between them. The median
 * of fifteen rounds counts. Run by hand.
 */
final class WindowTimes {
  private static final int ROUNDS = 15;
  private static final int WARM_UP = 4;
  private static final int OPERATIONS = 200;
  private static final int OF_GRAPH = 10;
  private static final long LEAST = 128 << 10;
  private static final long MOST = 8 << 20;

  private WindowTimes() {}

  public static void main(String[] arguments) throws Exception {
    List<Device> devices = new ArrayList<>(Devices.cuda().list());
    CommunicatorConfig config = CommunicatorConfig.defaults();
    if (devices.size() == 1) {
      devices.add(devices.get(0));
      config = config.with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    }
    try (Ranks ranks = new Ranks(Communicator.initAll(devices, config))) {
      ranks.run((comm, stream) -> time(comm, (CudaStream) stream));
    }
    System.exit(0);
  }

  private static void time(Communicator comm, CudaStream stream) {
    int n = comm.nRanks();
    try (DeviceMemory send = comm.device().memAlloc(MOST);
        DeviceMemory recv = comm.device().memAlloc(MOST)) {
      Window from = comm.registerWindow(send);
      Window to = comm.registerWindow(recv);
      for (long bytes = LEAST; bytes <= MOST; bytes *= 2) {
        long count = bytes / DataType.FLOAT32.bytes();
        DeviceMemory all = send.slice(0, bytes);
        DeviceMemory result = recv.slice(0, bytes);
        report(
            comm,
            stream,
            "all_reduce",
            bytes,
            () -> comm.allReduce(all, result, count, DataType.FLOAT32, RedOp.SUM, stream));
      }
      for (long bytes = LEAST; bytes <= MOST; bytes *= 2) {
        long count = bytes / n / DataType.FLOAT32.bytes();
        DeviceMemory part = send.slice(0, bytes / n);
        DeviceMemory result = recv.slice(0, bytes);
        report(
            comm,
            stream,
            "all_gather",
            bytes,
            () -> comm.allGather(part, result, count, DataType.FLOAT32, stream));
      }
      comm.deregisterWindowOnAllRanks(to);
      comm.deregisterWindowOnAllRanks(from);
    }
  }

  private static void report(
      Communicator comm, CudaStream stream, String what, long bytes, Runnable call) {
    StreamTimes times = new StreamTimes(stream, ROUNDS);
    double single = times.inARow(WARM_UP, OPERATIONS, call);
    try (CudaGraph graph = times.capture(OF_GRAPH, call)) {
      double inGraph =
          times.inARow(WARM_UP, OPERATIONS / OF_GRAPH, () -> graph.launch(stream)) / OF_GRAPH;
      if (comm.rank() == 0) {
        System.out.printf("%-10s %8d B %6.2f us, in graphs %6.2f%n", what, bytes, single, inGraph);
      }
    }
  }
}
