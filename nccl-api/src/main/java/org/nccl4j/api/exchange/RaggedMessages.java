package org.nccl4j.api.exchange;

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
  private final RaggedSums sums;

  private RaggedMessages(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      RaggedKernels.Sizes sizes,
      ExchangeChecks checks,
      RaggedSums sums,
      DeviceMemory received) {
    transfers = new Transfers(dispatcher);
    this.sizes = sizes;
    this.checks = checks;
    this.rank = state.rank();
    this.results = sums.results();
    this.received = received;
    this.counts = sums.counts();
    this.sums = sums;
  }

  /**
   * Prepares what is needed besides the results, together with all other ranks.
   *
   * @param target the user's window for the received elements; null for memory of the exchange
   * @param sums whose counts and results the caller closes
   * @throws NcclException on all ranks, if one of them lacks memory
   */
  public static RaggedMessages create(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      RaggedKernels.Sizes sizes,
      ExchangeAgreement agreement,
      ExchangeChecks checks,
      RegisteredWindow target,
      RaggedSums sums) {
    DeviceMemory received = null;
    NcclException lack = null;
    try {
      received =
          target == null
              ? state.device().allocate(sizes.receivedBytes())
              : target.memory().slice(0, sizes.receivedBytes());
    } catch (NcclException e) {
      lack = e;
    }
    try {
      agreement.reach(lack);
    } catch (RuntimeException e) {
      if (received != null) {
        received.close();
      }
      throw e;
    }
    return new RaggedMessages(state, dispatcher, sizes, checks, sums, received);
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
    RaggedCounts.Call call = gathers ? RaggedCounts.Call.ALL_GATHER : RaggedCounts.Call.ALL_TO_ALL;
    String where = checks.where(operation.method());
    counts.exchange(where, call, 0, given, send.size() / sizes.elementBytes(), stream);
    results.write(
        sizes, peer -> counts.count(peer, rank), peer -> counts.receivedBefore(peer, rank));
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

  @Override
  public boolean combines(RaggedReduction how) {
    return false;
  }

  @Override
  public void reduceScatter(
      DeviceMemory send, DeviceMemory given, RaggedReduction how, DeviceStream stream) {
    sums.reduceScatter(send, given, received, how, stream);
  }

  private DeviceMemory part(DeviceMemory memory, long first, long count) {
    return memory.slice(first * sizes.elementBytes(), count * sizes.elementBytes());
  }

  @Override
  public void close() {
    received.close();
  }
}
