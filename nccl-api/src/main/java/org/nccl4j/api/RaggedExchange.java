package org.nccl4j.api;

import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.api.exchange.ExchangeAgreement;
import org.nccl4j.api.exchange.ExchangeChecks;
import org.nccl4j.api.exchange.KernelOffer;
import org.nccl4j.api.exchange.RaggedCounts;
import org.nccl4j.api.exchange.RaggedDelivery;
import org.nccl4j.api.exchange.RaggedDirect;
import org.nccl4j.api.exchange.RaggedMessages;
import org.nccl4j.api.exchange.RaggedReduction;
import org.nccl4j.api.exchange.RaggedResults;
import org.nccl4j.api.exchange.RaggedSums;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.operation.Operation;

/**
 * All-to-all, all-gather and reduce-scatter of elements whose counts lie in device memory, where a
 * kernel may have computed them. All ranks create it together ({@link
 * Communicator#createRaggedExchange(RaggedConfig)}), with the most elements of a call.
 *
 * <p>Received elements lie in memory of the exchange, or in a window of the user's, by source rank
 * and without gaps. How many there are of each rank, and where they begin, is in device memory too:
 * {@link #receivedCounts} and {@link #receivedOffsets}.
 *
 * <p>All ranks make the same calls in the same order, those of all exchanges of a communicator
 * taken together, also ranks that have no elements. The data are there when the call's stream has
 * ended it. Where all ranks are GPUs that reach each other's windows, a call is one kernel: it
 * returns at once, and may be captured into a graph ({@link #isCapturable}); a replay reads the
 * counts anew. Elsewhere the host reads the counts, so that a call waits for what its stream was
 * given before and for the other ranks; ranks of one process then need a thread each. Calls are
 * refused in a {@link Group}.
 *
 * <p>Thread safety: one thread at a time. Close it before its communicator.
 */
public final class RaggedExchange implements AutoCloseable {
  private static final String CREATION = "createRaggedExchange";

  private final CommunicatorState state;
  private final RaggedConfig config;

  /** The user's window for the received elements; null for memory of the exchange. */
  private final RegisteredWindow target;

  private final ExchangeChecks checks;
  private final RaggedResults results;
  private final RaggedDelivery delivery;
  private final RaggedCounts counts;
  private boolean closed;

  private RaggedExchange(
      Communicator comm,
      RaggedConfig config,
      RegisteredWindow target,
      Numbers numbers,
      RaggedDelivery delivery) {
    this.state = comm.state();
    this.config = config;
    this.target = target;
    this.checks = numbers.checks;
    this.results = numbers.results;
    this.counts = numbers.counts;
    this.delivery = delivery;
    state.exchangeOpened();
  }

  /** The counts of an exchange and what is needed for them. */
  private record Numbers(ExchangeChecks checks, RaggedResults results, RaggedCounts counts) {
    void close() {
      results.close();
      counts.close();
    }
  }

  /** The sizes and the window on which ranks agree; window 0 is none. */
  private record Agreed(RaggedConfig sizes, long window) {}

  /**
   * Creates an exchange as {@link Communicator#createRaggedExchange(RaggedConfig, Window)}.
   *
   * @param target the window that it receives into, or null
   */
  static RaggedExchange create(Communicator comm, RaggedConfig sizes, RegisteredWindow target) {
    GroupScope.refuseInGroup(CREATION);
    CallOrder.Turn turn = comm.state().calls().enter();
    try (turn) {
      return createNow(comm, sizes, target);
    }
  }

  private static RaggedExchange createNow(
      Communicator comm, RaggedConfig sizes, RegisteredWindow target) {
    CommunicatorState state = comm.state();
    OperationDispatcher dispatcher = comm.dispatcher();
    state.checkOpen(CREATION);
    Arguments.notNull(sizes, "sizes of the ragged exchange");
    RaggedKernels.Sizes of = sizes.sizes(state.nRanks());
    Agreed agreed = new Agreed(sizes, target == null ? 0 : target.number());
    ExchangeAgreement agreement = new ExchangeAgreement(state, CREATION, agreed);
    ExchangeChecks checks = new ExchangeChecks(state, "");
    int number = state.nextExchange();
    Numbers numbers = null;
    KernelOffer offer = KernelOffer.NONE;
    NcclException lack = null;
    try {
      checkTarget(state, of, target);
      numbers = numbers(state, dispatcher, of, number, checks);
      offer = RaggedDirect.offer(state, dispatcher, of);
    } catch (NcclException e) {
      lack = e;
    }
    try {
      offer = agreement.reach(offer, lack);
      offer.tell(state, CREATION);
      RaggedSums sums =
          new RaggedSums(
              of, state.rank(), checks, numbers.counts, numbers.results, reductions(comm));
      RaggedDelivery delivery =
          offer.hasKernels()
              ? RaggedDirect.create(state, dispatcher, offer.form(), target, sums)
              : RaggedMessages.create(state, dispatcher, of, agreement, checks, target, sums);
      return new RaggedExchange(comm, sizes, target, numbers, delivery);
    } catch (RuntimeException e) {
      if (numbers != null) {
        numbers.close();
      }
      throw e;
    }
  }

  /** Reduce-scatters with counts from the host. */
  private static RaggedSums.Reduction reductions(Communicator comm) {
    VectorCollectives collectives = new VectorCollectives(comm);
    return (send, recv, counts, how, stream) -> {
      if (how.operator() == null) {
        collectives.reduceScatterV(send, recv, counts, how.type(), how.op(), stream);
      } else {
        collectives.reduceScatterV(send, recv, counts, how.type(), how.operator(), stream);
      }
    };
  }

  private static Numbers numbers(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      RaggedKernels.Sizes sizes,
      int number,
      ExchangeChecks checks) {
    RaggedResults results = RaggedResults.allocate(state.device(), sizes);
    try {
      return new Numbers(checks, results, RaggedCounts.create(state, dispatcher, sizes, number));
    } catch (RuntimeException e) {
      results.close();
      throw e;
    }
  }

  private static void checkTarget(
      CommunicatorState state, RaggedKernels.Sizes sizes, RegisteredWindow target) {
    if (target == null) {
      return;
    }
    if (!state.windows().has(target)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "%s on rank %d of communicator %s: the window is not registered with it"
              .formatted(CREATION, state.rank(), state.name()),
          "pass a window of the same communicator before it is deregistered");
    }
    if (target.memory().size() < sizes.receivedBytes()) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "%s on rank %d of communicator %s: the window has %d bytes of %d"
              .formatted(
                  CREATION,
                  state.rank(),
                  state.name(),
                  target.memory().size(),
                  sizes.receivedBytes()),
          "register a larger one, or pass a smaller maxReceived");
    }
  }

  /**
   * True if calls are kernels, which return at once and may be captured into a graph; the same on
   * all ranks. Of {@link #reduceScatter} see {@link #isReduceScatterCapturable}.
   */
  public boolean isCapturable() {
    return delivery.isCapturable();
  }

  /**
   * True if a {@link #reduceScatter} by an operator of RedOp or by a function of the user is
   * kernels too: {@link #isCapturable()}, and maxReceived is at least maxCount times the number of
   * ranks, so that the parts of all ranks have room in {@link #received}. False where the
   * communicator's sums travel quantised. The same on all ranks.
   */
  public boolean isReduceScatterCapturable() {
    return delivery.combines(new RaggedReduction(DataType.FLOAT32, RedOp.SUM, null));
  }

  /** The sizes. */
  public RaggedConfig config() {
    return config;
  }

  /**
   * The received elements, by source rank; there is room for maxReceived. They lie in the window of
   * the exchange's creation, or else in memory of the exchange. Valid until this rank's next call,
   * whose stream may overwrite it. The user may write it too.
   */
  public DeviceMemory received() {
    return delivery.received();
  }

  /**
   * The number of elements received from each rank: [nRanks] of the counts' type. It may be the
   * counts of a call, of this exchange too.
   */
  public DeviceMemory receivedCounts() {
    return results.counts();
  }

  /**
   * The first element received from each rank, then the number of all: [nRanks + 1] of the counts'
   * type.
   */
  public DeviceMemory receivedOffsets() {
    return results.offsets();
  }

  /**
   * Sends elements to each rank, and receives those of each.
   *
   * @param send the elements by target rank, without gaps; not of {@link #received}
   * @param counts [nRanks] of the counts' type: the number for each rank, 0 to maxCount
   * @throws InvalidArgumentException for a memory that is too small, of another device or, of
   *     counts on a GPU, not aligned to a count, and for elements to send in {@link #received}; on
   *     all ranks, for a count that is not allowed, for more elements than the send buffer has, and
   *     for more than maxReceived at a rank. For these a kernel fails the communicator; elsewhere
   *     nothing changes
   * @throws InvalidUsageException after close, in a group, and while the stream is captured unless
   *     {@link #isCapturable}
   */
  public void allToAll(DeviceMemory send, DeviceMemory counts, DeviceStream stream) {
    check(
        Operation.RAGGED_ALL_TO_ALL.method(),
        delivery.isCapturable(),
        send,
        counts,
        state.nRanks(),
        stream);
    delivery.allToAll(send, counts, stream);
  }

  /**
   * Sends the same elements to all ranks, and receives those of each.
   *
   * @param send the elements; not of {@link #received}
   * @param count one of the counts' type: the number of elements, 0 to maxCount
   * @throws InvalidArgumentException as {@link #allToAll}
   * @throws InvalidUsageException as {@link #allToAll}
   */
  public void allGather(DeviceMemory send, DeviceMemory count, DeviceStream stream) {
    check(Operation.RAGGED_ALL_GATHER.method(), delivery.isCapturable(), send, count, 1, stream);
    delivery.allGather(send, count, stream);
  }

  /**
   * Reduces the parts of all ranks, and receives this rank's part of the result: at the begin of
   * {@link #received}. Then each of {@link #receivedCounts} is the number of its elements, so that
   * an all-gather may take the first of them; {@link #receivedOffsets} has a zero for each rank,
   * and behind them that number.
   *
   * <p>If {@link #isReduceScatterCapturable}, it is two kernels, which combine the parts in the
   * order of the ranks and round once, so all ranks would get the same bits. What was behind the
   * result in {@link #received} is overwritten.
   *
   * <p>Else it is as {@link Communicator#reduceScatterV}, which it calls once the host has read the
   * counts: so the call waits for what its stream was given before, and for the other ranks, on
   * GPUs too, and cannot be captured. Ranks of one process need a thread each.
   *
   * @param send the parts by target rank, without gaps; not of {@link #received}
   * @param counts [nRanks] of the counts' type: elements of each rank's part, 0 to maxCount, the
   *     same on all ranks
   * @param type of the numbers that elements consist of
   * @throws InvalidArgumentException as {@link #allToAll}, and for elements that are no whole
   *     numbers of the type, and on a GPU for {@link #received} that is not aligned to the type; on
   *     all ranks, for a count that is not allowed or not the same on all ranks, for more elements
   *     than the send buffer has, and for a part of more than maxReceived. For these a kernel fails
   *     the communicator; elsewhere nothing changes
   * @throws InvalidUsageException after close, in a group, and while the stream is captured unless
   *     {@link #isReduceScatterCapturable}; on all ranks, for another type or operator. Where one
   *     rank's call is kernels and another's is not, as of a pre-multiplied sum and a RedOp, both
   *     end at their deadline
   */
  public void reduceScatter(
      DeviceMemory send, DeviceMemory counts, DataType type, RedOp op, DeviceStream stream) {
    Arguments.notNull(type, "type");
    Arguments.notNull(op, "op");
    reduce(send, counts, new RaggedReduction(type, op, null), stream);
  }

  /**
   * The same with an operator of yours. A function for GPUs is compiled by the first call, unless
   * {@link Communicator#prepare(org.nccl4j.operation.Operation, long, DataType, ReductionOperator)}
   * has compiled it for another one; a pre-multiplied sum always takes counts from the host.
   *
   * @param send the parts by target rank, without gaps; not of {@link #received}
   * @param counts as above; of structs the elements of the exchange count, not their bytes
   * @param type of the numbers that elements consist of; UINT8 for structs
   * @param operator the same on all ranks
   * @throws InvalidArgumentException as above, and for an operator of another type
   * @throws InvalidUsageException as above, and for an operator without a function for this device
   */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory counts,
      DataType type,
      ReductionOperator operator,
      DeviceStream stream) {
    Arguments.notNull(type, "type");
    Arguments.notNull(operator, "operator");
    reduce(send, counts, new RaggedReduction(type, null, operator), stream);
  }

  private void reduce(
      DeviceMemory send, DeviceMemory counts, RaggedReduction how, DeviceStream stream) {
    String what = Operation.RAGGED_REDUCE_SCATTER.method();
    check(what, delivery.combines(how), send, counts, state.nRanks(), stream);
    how.check(checks, what, config.elementBytes());
    checks.memory(what, "the memory of the received elements", received(), 0, how.alignment());
    delivery.reduceScatter(send, counts, how, stream);
  }

  private void check(
      String what,
      boolean capturable,
      DeviceMemory send,
      DeviceMemory counts,
      int numbers,
      DeviceStream stream) {
    int bytes = config.countType().bytes();
    checks.call(what, closed, capturable, stream);
    if (target != null && target.isDropped()) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          checks.where(what) + "the window of the received elements is not registered any more",
          "close the exchange before its window is deregistered");
    }
    checks.memory(what, "send", send, 0, 1);
    checks.memory(what, numbers == 1 ? "count" : "counts", counts, (long) numbers * bytes, bytes);
    if (ExchangeChecks.overlap(send, send.size(), received())) {
      throw checks.wrong(
          what,
          ErrorId.BUFFER,
          "the elements to send lie in the memory of the received ones, into which the other ranks"
              + " write",
          "copy them, or send them by another exchange");
    }
  }

  /**
   * Frees this rank's memory. Call it after the streams' last use of {@link #received} and the
   * other memories. Idempotent.
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    delivery.close();
    results.close();
    counts.close();
    state.exchangeClosed();
  }
}
