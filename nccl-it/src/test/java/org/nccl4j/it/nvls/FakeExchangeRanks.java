package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorConfig.CtaPolicy;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.RaggedExchange;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/**
 * A program that launches an exchange with experts and a ragged one, each of so many elements that
 * it has use for all blocks.
 */
final class FakeExchangeRanks {
  private static final ExpertConfig EXPERTS =
      new ExpertConfig(512, 256, 2, 8, DataType.BFLOAT16, false);
  private static final RaggedConfig RAGGED = new RaggedConfig(16, 1 << 15, 1 << 15, DataType.INT32);

  private FakeExchangeRanks() {}

  /**
   * Arguments: "options" for limits of the calls; "shared" for two ranks on one GPU; "hosts" for
   * ranks that count as being on several hosts.
   */
  public static void main(String[] arguments) {
    List<String> how = List.of(arguments);
    List<? extends Device> gpus = Devices.cuda().list();
    List<? extends Device> devices =
        how.contains("shared") ? List.of(gpus.get(0), gpus.get(0)) : gpus;
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    UniqueId id = UniqueId.create(config);
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < devices.size(); rank++) {
      CommunicatorConfig own =
          how.contains("hosts")
              ? config.with("NCCL_HOSTID", "" + rank).with("NCCL_P2P_DISABLE", "1")
              : config;
      joining.add(Communicator.initRankAsync(devices.size(), id, rank, devices.get(rank), own));
    }
    List<Communicator> ranks = joining.stream().map(CompletableFuture::join).toList();
    CallOptions few = CallOptions.defaults().withMaxCtas(3);
    CallOptions sparing = CallOptions.defaults().withCtaPolicy(CtaPolicy.EFFICIENCY);
    if (how.contains("options")) {
      launch(ranks.stream().map(rank -> rank.withOptions(few)).toList());
      System.out.println("blocks " + ranks.get(0).lastBlocks());
      launch(ranks.stream().map(rank -> rank.withOptions(sparing)).toList());
      System.out.println("blocks " + ranks.get(0).lastBlocks());
    } else {
      launch(ranks);
    }
    ranks.forEach(Communicator::close);
  }

  /** Launches both exchanges on all ranks of this process, a thread for each. */
  static void launch(List<Communicator> ranks) {
    onThreads(
        ranks,
        comm -> {
          Device device = comm.device();
          try (DeviceStream stream = device.createStream();
              DeviceMemory data = device.allocate(1 << 20);
              DeviceMemory numbers = device.allocate(4L * EXPERTS.maxTokens() * EXPERTS.topK());
              ExpertExchange experts = comm.createExpertExchange(EXPERTS);
              RaggedExchange ragged = comm.createRaggedExchange(RAGGED)) {
            experts.dispatch(data, numbers, numbers, EXPERTS.maxTokens(), stream);
            experts.combine(experts.received(), data, stream);
            if (ragged.isCapturable()) { // else counts travel, which the fake does not move
              ragged.allToAll(data, numbers, stream);
              ragged.allGather(data, numbers, stream);
            }
            stream.synchronize();
          }
        });
  }

  private static void onThreads(List<Communicator> ranks, Consumer<Communicator> call) {
    ranks.stream()
        .map(
            comm ->
                CompletableFuture.runAsync(
                    () -> call.accept(comm), task -> new Thread(task).start()))
        .toList()
        .forEach(CompletableFuture::join);
  }
}
