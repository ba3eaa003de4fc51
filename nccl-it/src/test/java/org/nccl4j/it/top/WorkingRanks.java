package org.nccl4j.it.top;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Two ranks of this process on the host, which all-reduce again and again. */
final class WorkingRanks {
  private final List<Communicator> ranks;
  private final List<DeviceStream> streams;
  private final Thread worker = new Thread(this::work, "working-ranks");

  /**
   * Starts them.
   *
   * @param name of the communicator
   */
  WorkingRanks(String name) {
    this(
        Communicator.initAll(
            List.of(Devices.host(), Devices.host()), CommunicatorConfig.defaults().withName(name)));
  }

  /** Starts the ranks of a job. */
  WorkingRanks(UniqueId id, String name) {
    this(
        Stream.of(0, 1)
            .map(
                rank ->
                    Communicator.initRankAsync(
                        2, id, rank, Devices.host(), CommunicatorConfig.defaults().withName(name)))
            .toList()
            .stream()
            .map(CompletableFuture::join)
            .toList());
  }

  private WorkingRanks(List<Communicator> ranks) {
    this.ranks = ranks;
    streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    worker.start();
  }

  private void work() {
    try (DeviceMemory a = Devices.host().allocate(4096);
        DeviceMemory b = Devices.host().allocate(4096)) {
      List<DeviceMemory> data = List.of(a, b);
      while (!Thread.currentThread().isInterrupted()) {
        Group.run(
            () -> {
              for (int r = 0; r < 2; r++) {
                DeviceMemory mine = data.get(r);
                ranks.get(r).allReduce(mine, mine, 1024, DataType.INT32, RedOp.MAX, streams.get(r));
              }
            });
        streams.forEach(DeviceStream::synchronize);
      }
    }
  }

  /** Ends the operations. */
  void stop() throws InterruptedException {
    worker.interrupt();
    worker.join();
  }

  /** Ends the operations and closes all. */
  void close() throws InterruptedException {
    stop();
    streams.forEach(DeviceStream::close);
    ranks.forEach(Communicator::close);
  }
}
