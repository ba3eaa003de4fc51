package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/**
 * A program of ranks that say they are on several hosts, on fake GPUs by turns: all-to-alls, then
 * one that is captured into a graph and launched twice.
 */
final class FakeRailRanks {
  static final int CALLS = 3;

  private static final int COUNT = 100;

  private FakeRailRanks() {}

  /** A rank's communicator, buffers and stream. */
  private record Rank(Communicator comm, DeviceMemory send, DeviceMemory recv, CudaStream stream) {
    static Rank of(Communicator comm) {
      return new Rank(
          comm,
          comm.device().allocate((long) COUNT * comm.nRanks()),
          comm.device().allocate((long) COUNT * comm.nRanks()),
          (CudaStream) comm.device().createStream());
    }

    void exchange() {
      comm.allToAll(send, recv, COUNT, DataType.INT8, stream);
    }
  }

  /** Arguments: a letter for each rank, those with the same on one host. */
  public static void main(String[] arguments) {
    String hosts = arguments[0];
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_P2P_DISABLE", "1");
    UniqueId id = UniqueId.create(config);
    List<? extends Device> devices = Devices.cuda().list();
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < hosts.length(); rank++) {
      joining.add(
          Communicator.initRankAsync(
              hosts.length(),
              id,
              rank,
              devices.get(rank % devices.size()),
              config.with("NCCL_HOSTID", "host " + hosts.charAt(rank))));
    }
    List<Rank> ranks = joining.stream().map(CompletableFuture::join).map(Rank::of).toList();
    System.out.println(ranks.get(0).comm.explain(Operation.ALL_TO_ALL, COUNT, DataType.INT8));
    for (int call = 0; call < CALLS; call++) {
      Group.run(() -> ranks.forEach(Rank::exchange));
    }
    System.out.println("memory " + ranks.get(0).comm.memory());
    ranks.forEach(rank -> rank.stream.beginCapture());
    Group.run(() -> ranks.forEach(Rank::exchange));
    List<CudaGraph> graphs = ranks.stream().map(rank -> rank.stream.endCapture()).toList();
    for (int rank = 0; rank < ranks.size(); rank++) {
      graphs.get(rank).launch(ranks.get(rank).stream);
      graphs.get(rank).launch(ranks.get(rank).stream);
    }
    System.out.println("memory " + ranks.get(0).comm.memory());
    graphs.forEach(CudaGraph::close);
    ranks.forEach(rank -> rank.comm.close());
    ranks.forEach(
        rank -> {
          rank.send.close();
          rank.recv.close();
          rank.stream.close();
        });
  }
}
