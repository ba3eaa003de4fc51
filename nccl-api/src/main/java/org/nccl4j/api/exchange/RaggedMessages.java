package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.operation.Operation;

/**
 * Exchanges elements by sends and receives, between ranks that do not all reach each other's
 * windows. The host reads the counts, gets those of all ranks by an all-gather, and so waits for
 * the stream and for the other ranks. The elements follow in the stream.
 */
public final class RaggedMessages implements RaggedDelivery {
  private final Transfers transfers;
  private final RaggedKernels.Sizes sizes;
  private final ExchangeChecks checks;
  private final int rank;
  private final RaggedResults results;
  private final DeviceMemory received;
  private final RaggedCounts counts;

  private RaggedMessages(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      RaggedKernels.Sizes sizes,
      ExchangeChecks checks,
      RaggedResults results,
      DeviceMemory[] memory) {
    transfers = new Transfers(dispatcher);
    this.sizes = sizes;
    this.checks = checks;
    this.rank = state.rank();
    this.results = results;
    received = memory[0];
    counts = new RaggedCounts(dispatcher, sizes, state.nextExchange(), memory[1], memory[2]);
  }

  /**
   * Prepares what is needed besides the results, together with all other ranks.
   *
   * @param target the user's window for the received elements; null for memory of the exchange
   * @throws NcclException on all ranks, if one of them lacks memory
   */
  public static RaggedMessages create(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      RaggedKernels.Sizes sizes,
      ExchangeAgreement agreement,
      ExchangeChecks checks,
      RegisteredWindow target,
      RaggedResults results) {
    DeviceMemory[] memory = {};
    NcclException lack = null;
    try {
      long row = RaggedCounts.rowBytes(sizes.nRanks());
      memory =
          ExchangeMemory.allocateAll(
              state.device(),
              target == null ? sizes.receivedBytes() : 0,
              row,
              sizes.nRanks() * row);
    } catch (NcclException e) {
      lack = e;
    }
    try {
      agreement.reach(lack);
    } catch (RuntimeException e) {
      for (DeviceMemory each : memory) {
        each.close();
      }
      throw e;
    }
    if (target != null) {
      memory[0].close();
      memory[0] = target.memory().slice(0, sizes.receivedBytes());
    }
    return new RaggedMessages(state, dispatcher, sizes, checks, results, memory);
  }

  @Override
  public boolean isCapturable() {
    return false;
  }

  @Override
  public DeviceMemory received() {
    return received;
  }

  @Override
  public void allToAll(DeviceMemory send, DeviceMemory given, DeviceStream stream) {
    exchange(/* gathers= */ false, send, given, stream);
  }

  @Override
  public void allGather(DeviceMemory send, DeviceMemory given, DeviceStream stream) {
    exchange(/* gathers= */ true, send, given, stream);
  }

  private void exchange(
      boolean gathers, DeviceMemory send, DeviceMemory given, DeviceStream stream) {
    Operation operation = gathers ? Operation.RAGGED_ALL_GATHER : Operation.RAGGED_ALL_TO_ALL;
    String where = checks.where(operation.method());
    counts.exchange(where, gathers, given, send.size() / sizes.elementBytes(), stream);
    write(results.counts(), sizes.nRanks(), peer -> counts.count(peer, rank));
    write(results.offsets(), sizes.nRanks() + 1, peer -> counts.receivedBefore(peer, rank));
    GroupScope.run(
        () -> {
          for (int distance = 0; distance < sizes.nRanks(); distance++) {
            int to = (rank + distance) % sizes.nRanks();
            int from = (rank - distance + sizes.nRanks()) % sizes.nRanks();
            long sent = gathers ? 0 : counts.sentBefore(rank, to);
            transfers.send(part(send, sent, counts.count(rank, to)), to, stream);
            long first = counts.receivedBefore(from, rank);
            transfers.receive(part(received, first, counts.count(from, rank)), from, stream);
          }
        });
  }

  private DeviceMemory part(DeviceMemory memory, long first, long count) {
    return memory.slice(first * sizes.elementBytes(), count * sizes.elementBytes());
  }

  /** A number for each rank. */
  private interface OfRank {
    long get(int rank);
  }

  private void write(DeviceMemory memory, int numbers, OfRank number) {
    ByteBuffer bytes =
        ByteBuffer.allocate(numbers * sizes.countBytes()).order(ByteOrder.nativeOrder());
    for (int i = 0; i < numbers; i++) {
      if (sizes.wide()) {
        bytes.putLong(number.get(i));
      } else {
        bytes.putInt((int) number.get(i));
      }
    }
    memory.write(0, bytes.flip());
  }

  @Override
  public void close() {
    received.close();
    counts.close();
  }
}
