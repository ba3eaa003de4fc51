package org.nccl4j.it.nvls;

import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevices;

/** A program that makes a communicator of all GPUs and closes it. */
final class FakeGpuRanks {
  private FakeGpuRanks() {}

  /** No arguments; settings come from the environment. */
  public static void main(String[] arguments) {
    List<Device> devices = List.copyOf(CudaDevices.probe().list());
    List<Communicator> ranks = Communicator.initAll(devices);
    String table = ranks.get(0).explain("all_reduce", 1 << 20, org.nccl4j.device.DataType.FLOAT32);
    System.out.println(table.contains("NVLS") ? "with NVLS" : "without NVLS");
    System.out.println(table);
    ranks.forEach(Communicator::close);
  }
}
