package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntFunction;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * A program with two ranks on one GPU, which launches a group of an operation of each of two
 * communicators that share connections, in four streams.
 */
final class FakeSharedGpu {
  private static final int COUNT = 1000;
  private static final int RANKS = 2;

  private FakeSharedGpu() {}

  /** No arguments. */
  public static void main(String[] arguments) {
    Device device = Devices.cuda().list().get(0);
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    UniqueId id = UniqueId.create(config);
    List<Communicator> parents =
        ofEachRank(rank -> Communicator.initRank(RANKS, id, rank, device, config));
    List<Communicator> splits =
        ofEachRank(rank -> parents.get(rank).split(0, rank, config).orElseThrow());
    List<Communicator> all = new ArrayList<>(splits);
    all.addAll(parents);
    List<DeviceStream> streams = new ArrayList<>();
    List<DeviceMemory> data = new ArrayList<>();
    for (Communicator rank : all) {
      streams.add(rank.device().createStream());
      data.add(rank.device().allocate(4 * COUNT));
    }
    device.allocate(FakeGpuRanks.MARK_BYTES).close();
    Group.run(
        () -> {
          for (int i = 0; i < all.size(); i++) {
            DeviceMemory own = data.get(i);
            all.get(i).allReduce(own, own, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(i));
          }
        });
    device.allocate(FakeGpuRanks.MARK_BYTES).close();
    streams.forEach(DeviceStream::close);
    data.forEach(DeviceMemory::close);
    all.forEach(Communicator::close);
  }

  private static List<Communicator> ofEachRank(IntFunction<Communicator> make) {
    List<CompletableFuture<Communicator>> making = new ArrayList<>();
    for (int r = 0; r < RANKS; r++) {
      int rank = r;
      making.add(
          CompletableFuture.supplyAsync(() -> make.apply(rank), task -> new Thread(task).start()));
    }
    return making.stream().map(CompletableFuture::join).toList();
  }
}
