package org.nccl4j.api;

import java.util.List;
import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.api.exchange.ExchangeAgreement;
import org.nccl4j.api.exchange.ExchangeChecks;
import org.nccl4j.api.exchange.ExpertBuffers;
import org.nccl4j.api.exchange.ExpertDelivery;
import org.nccl4j.api.exchange.ExpertDirect;
import org.nccl4j.api.exchange.ExpertMessages;
import org.nccl4j.api.exchange.KernelOffer;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.operation.Operation;

/**
 * Brings tokens to the ranks of their experts, and the experts' outputs back: dispatch and combine
 * of a mixture of experts. All ranks create it together ({@link
 * Communicator#createExpertExchange}).
 *
 * <p>A dispatch brings each token once for each of its experts. The received rows lie by local
 * expert, source rank, token and place among the token's experts (k), without gaps, so that the
 * rows of an expert are the input of one matrix multiplication. Combine returns one output for each
 * received row, in the same order, and adds a token's outputs, times their weights, in float32 in
 * the order of k; the sum is rounded once. So the result does not depend on which rank has which
 * expert, unless hosts add their outputs first ({@link ExpertConfig#sumsByHost}).
 *
 * <p>With fp8 a token travels as FLOAT8_E4M3 with a float32 scale for every {@link
 * ExpertConfig#SCALED} elements: their greatest magnitude, but at least 2<sup>-100</sup>, divided
 * by 448, or 1 if all are 0, or NaN if one is a NaN or an infinity. An element is the received
 * value times its scale.
 *
 * <p>All ranks call dispatch and combine in the same order, those of all exchanges of a
 * communicator taken together, also ranks that have no tokens. The data are there when the call's
 * stream has ended it. Where all ranks are GPUs that reach each other's windows, a call is one
 * kernel: it returns at once, and may be captured into a graph ({@link #isCapturable}). Elsewhere,
 * as between hosts, the calling thread of a dispatch waits for what its stream was given before and
 * until all ranks have called it, since the host must know the sizes of the sends: so ranks of one
 * process need a thread each. Then it copies the expert numbers of all ranks from the device, and
 * finds the routes; the tokens follow in the stream. A combine waits for nothing. Calls are refused
 * in a {@link Group}.
 *
 * <p>A call may be made in two parts: {@link #beginDispatch} and {@link #beginCombine} send, and
 * {@link ReceiveHook#receive} receives. Where calls are kernels, nothing of the exchange runs
 * between the two kernels while data travel, so that a computation there has all multiprocessors.
 * Elsewhere the first part of a dispatch waits for what the call waits for, and its second part
 * until its stream has the tokens. One call can be open at a time: two batches that overlap take an
 * exchange each.
 *
 * <p>Thread safety: one thread at a time. Close it before its communicator.
 */
public final class ExpertExchange implements AutoCloseable {
  private static final String CREATION = "createExpertExchange";
  private static final String DISPATCH = Operation.DISPATCH.method();
  private static final String COMBINE = Operation.COMBINE.method();

  /** A GPU's kernels load and store rows in units of so many bytes. */
  private static final int ROW_ALIGNMENT = ExpertSizes.UNIT;

  private final CommunicatorState state;
  private final ExchangeChecks checks;
  private final ExpertConfig config;
  private final long rowBytes;
  private final ExpertBuffers buffers;
  private final ExpertDelivery delivery;

  /** Tokens of the last dispatch, -1 before the first. */
  private int tokens = -1;

  /** True once a dispatch was captured: which one ran last is known on the device alone. */
  private boolean captured;

  /** The call of which only the sending part was made, or null. */
  private ReceiveHook open;

  private boolean closed;

  private ExpertExchange(
      CommunicatorState state,
      ExchangeChecks checks,
      ExpertConfig config,
      ExpertBuffers buffers,
      ExpertDelivery delivery) {
    this.state = state;
    this.checks = checks;
    this.config = config;
    this.rowBytes = config.sizes(state.nRanks()).rowBytes();
    this.buffers = buffers;
    this.delivery = delivery;
    state.exchangeOpened();
  }

  static ExpertExchange create(
      CommunicatorState state, OperationDispatcher dispatcher, ExpertConfig config) {
    GroupScope.refuseInGroup(CREATION);
    CallOrder.Turn turn = state.calls().enter();
    try (turn) {
      return createNow(state, dispatcher, config);
    }
  }

  private static ExpertExchange createNow(
      CommunicatorState state, OperationDispatcher dispatcher, ExpertConfig config) {
    state.checkOpen(CREATION);
    int nRanks = state.nRanks();
    Arguments.notNull(config, "sizes of the exchange with experts");
    ExpertSizes sizes = config.sizes(nRanks);
    ExchangeAgreement agreement = new ExchangeAgreement(state, CREATION, config);
    ExchangeChecks checks = new ExchangeChecks(state, " of tokens");
    ExpertBuffers buffers = null;
    KernelOffer offer = KernelOffer.NONE;
    NcclException lack = null;
    try {
      config.check(nRanks);
      buffers = ExpertBuffers.allocate(state.device(), sizes);
      offer = ExpertDirect.offer(state, dispatcher, sizes);
    } catch (NcclException e) {
      lack = e;
    }
    try {
      offer = agreement.reach(offer, lack);
      offer.tell(state, CREATION);
      ExpertDelivery delivery =
          offer.hasKernels()
              ? ExpertDirect.create(state, sizes, offer.form(), buffers)
              : ExpertMessages.create(
                  dispatcher, sizes, config.sumsByHost(), agreement, checks, buffers);
      return new ExpertExchange(state, checks, config, buffers, delivery);
    } catch (RuntimeException e) {
      if (buffers != null) {
        buffers.close();
      }
      throw e;
    }
  }

  /**
   * True if calls are kernels, which return at once and may be captured into a graph; the same on
   * all ranks.
   */
  public boolean isCapturable() {
    return delivery.isCapturable();
  }

  /** The sizes. */
  public ExpertConfig config() {
    return config;
  }

  /**
   * The received rows, each of hidden elements: of the tokens' type, or with fp8 of FLOAT8_E4M3.
   * The last of {@link #offsets} says how many there are; there is room for nRanks x maxTokens x
   * topK. Valid until the next dispatch. An expert may overwrite it.
   */
  public DeviceMemory received() {
    return buffers.received();
  }

  /** With fp8 the scales of the received rows: float32 [rows][hidden / 128]; else no bytes. */
  public DeviceMemory scales() {
    return buffers.scales();
  }

  /** The rows of each local expert from each rank: int32 [experts / nRanks][nRanks]. */
  public DeviceMemory counts() {
    return buffers.counts();
  }

  /** The first row of each local expert, then the number of rows: int32 [experts / nRanks + 1]. */
  public DeviceMemory offsets() {
    return buffers.offsets();
  }

  /**
   * Brings this rank's tokens to the ranks of their experts, and theirs here. The arguments do not
   * lie in {@link #received} or the other memories of this exchange.
   *
   * @param tokens [count][hidden] of the tokens' type
   * @param experts int32 [count][topK]: numbers of experts, or -1 for none. A token that names an
   *     expert twice is received twice
   * @param weights float32 [count][topK], kept for combine
   * @param count this rank's tokens, 0 to maxTokens
   * @throws InvalidArgumentException for a memory that is too small, of another device, of this
   *     exchange or on a GPU not aligned (tokens to 16 bytes, the others to 4), an invalid count,
   *     or, on all ranks, if any rank passes an expert that does not exist; where {@link
   *     #isCapturable}, a kernel fails the communicator then
   * @throws InvalidUsageException while a call that was begun has not been received, after close,
   *     in a group, and while the stream is captured unless {@link #isCapturable}
   */
  public void dispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      DeviceStream stream) {
    dispatch(tokens, experts, weights, count, /* whole= */ true, stream);
  }

  /**
   * The sending part of {@link #dispatch}, with the same arguments and errors. Ranks may differ in
   * making a call in one part or in two.
   *
   * @return the receiving part. Until then {@link #received} and the other memories keep what the
   *     dispatch before has brought
   */
  public ReceiveHook beginDispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      DeviceStream stream) {
    dispatch(tokens, experts, weights, count, /* whole= */ false, stream);
    open = new ReceiveHook(this, DISPATCH, null, stream.isCapturing());
    return open;
  }

  private void dispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      boolean whole,
      DeviceStream stream) {
    String what = DISPATCH;
    checkCall(what, stream);
    checkReceived(what);
    if (count < 0 || count > config.maxTokens()) {
      throw checks.wrong(
          what,
          ErrorId.COUNT,
          "%d tokens".formatted(count),
          "pass 0 to " + config.maxTokens() + ", or create the exchange for more");
    }
    long entries = (long) count * config.topK();
    checks.memory(what, "tokens", tokens, count * rowBytes, ROW_ALIGNMENT);
    checks.memory(what, "experts", experts, entries * Integer.BYTES, Integer.BYTES);
    checks.memory(what, "weights", weights, entries * Float.BYTES, Float.BYTES);
    checkApart("tokens", tokens, count * rowBytes);
    checkApart("experts", experts, entries * Integer.BYTES);
    checkApart("weights", weights, entries * Float.BYTES);
    delivery.dispatch(tokens, experts, weights, count, whole, stream);
    this.tokens = count;
    captured |= stream.isCapturing();
  }

  /** Bytes of the result that are known to be needed. */
  private long resultBytes() {
    return captured ? 0 : tokens * rowBytes;
  }

  /** A kernel stores received rows while other blocks still load what this rank sends. */
  private void checkApart(String name, DeviceMemory sent, long bytes) {
    for (DeviceMemory written :
        List.of(buffers.received(), buffers.scales(), buffers.counts(), buffers.offsets())) {
      if (ExchangeChecks.overlap(sent, bytes, written)) {
        throw checks.wrong(
            DISPATCH,
            ErrorId.BUFFER,
            name + " lies in memory of the exchange, which the dispatch writes",
            "copy it, or dispatch it by another exchange");
      }
    }
  }

  /**
   * Returns the experts' outputs for the rows of the last dispatch, and adds those of this rank's
   * tokens. May be called again with other outputs.
   *
   * @param outputs [rows][hidden] of the tokens' type, in the order of {@link #received}; without
   *     fp8 that memory itself is allowed
   * @param result [count][hidden] for the count of the last dispatch, with graphs of the last that
   *     ran; 0 for a token without experts. It does not overlap outputs
   * @throws InvalidArgumentException for a memory that is too small, of another device, or on a GPU
   *     not aligned to 16 bytes, and for a result that overlaps outputs; of outputs with fewer rows
   *     than were received, and of a result with fewer rows than a replayed dispatch had tokens, a
   *     kernel fails the communicator
   * @throws InvalidUsageException before the first dispatch, while a call that was begun has not
   *     been received, after close, in a group, and while the stream is captured unless {@link
   *     #isCapturable}
   */
  public void combine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream) {
    checkCombine(outputs, result, stream);
    delivery.combine(outputs, result, stream);
  }

  /**
   * The sending part of {@link #combine}, with the same arguments and errors.
   *
   * @param result kept for the receiving part, which alone writes it
   * @return the receiving part
   */
  public ReceiveHook beginCombine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream) {
    checkCombine(outputs, result, stream);
    delivery.combine(outputs, null, stream);
    open = new ReceiveHook(this, COMBINE, result, stream.isCapturing());
    return open;
  }

  void receive(ReceiveHook part, DeviceStream stream) {
    String what = part.call();
    checkCall(what, stream);
    if (part != open) {
      throw new InvalidUsageException(
          ErrorId.USAGE, checks.where(what) + "it was received", "receive once what was begun");
    }
    if (part.result() == null) {
      delivery.receiveDispatch(stream);
    } else {
      checks.memory(what, "result", part.result(), resultBytes(), ROW_ALIGNMENT);
      delivery.receiveCombine(part.result(), stream);
    }
    open = null;
  }

  private void checkCombine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream) {
    String what = COMBINE;
    checkCall(what, stream);
    checkReceived(what);
    if (tokens < 0) {
      throw new InvalidUsageException(
          ErrorId.USAGE, checks.where(what) + "nothing was dispatched", "call dispatch first");
    }
    checks.memory(what, "outputs", outputs, 0, ROW_ALIGNMENT);
    checks.memory(what, "result", result, resultBytes(), ROW_ALIGNMENT);
    if (ExchangeChecks.overlap(result, resultBytes(), outputs)) {
      throw checks.wrong(
          what,
          ErrorId.BUFFER,
          "the result overlaps the outputs, of which rows are still sent while it is written",
          "pass memory of its own as the result");
    }
  }

  private void checkReceived(String what) {
    if (open != null) {
      throw notReceived(checks.where(what), "; a batch that overlaps takes an exchange of its own");
    }
  }

  private InvalidUsageException notReceived(String where, String furtherRemedy) {
    return new InvalidUsageException(
        ErrorId.USAGE,
        where + "the last %s was begun and not received".formatted(open.call()),
        "call receive of what begin%s returned first%s"
            .formatted(open.call().equals(DISPATCH) ? "Dispatch" : "Combine", furtherRemedy));
  }

  private void checkCall(String what, DeviceStream stream) {
    checks.call(what, closed, delivery.isCapturable(), stream);
  }

  /**
   * Frees this rank's memory. Call it after the streams' last use of {@link #received} and the
   * other memories. After a failure or the close of the communicator it frees also what was begun
   * and not received, and always what was begun in a graph: that may have been dropped. Idempotent.
   *
   * @throws InvalidUsageException while a call that was begun has not been received, of which the
   *     rows or the sums would be lost; then nothing is freed
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    if (open != null && !open.isCaptured() && !state.isClosed() && state.failure() == null) {
      throw notReceived(
          "close of an exchange with experts on rank %d of communicator %s: "
              .formatted(state.rank(), state.name()),
          ", on all ranks");
    }
    closed = true;
    delivery.close();
    buffers.close();
    state.exchangeClosed();
  }
}
