package org.nccl4j.it.nvls;

import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.cuda.CudaDevices;

/** A program that is one rank, on the GPU of its number, and makes a communicator and closes it. */
final class FakeGpuRank {
  private FakeGpuRank() {}

  /** Arguments: ranks, rank, unique id. */
  public static void main(String[] arguments) {
    int rank = Integer.parseInt(arguments[1]);
    try (Communicator communicator =
        Communicator.initRank(
            Integer.parseInt(arguments[0]),
            UniqueId.parse(arguments[2]),
            rank,
            CudaDevices.probe().device(rank),
            CommunicatorConfig.defaults())) {
      System.out.println("transports " + communicator.transports());
    }
  }
}
