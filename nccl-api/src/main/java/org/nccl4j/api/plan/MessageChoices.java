package org.nccl4j.api.plan;

import java.util.List;
import java.util.Locale;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Chooses protocols of sends and receives, and algorithms of the operations that consist of them,
 * by facts that all ranks know and without a device.
 */
public final class MessageChoices {
  /** A channel in LL128 carries 7 GB/s over NVLink; in Simple more, but a step takes longer. */
  private static final long LINE_BYTES_OF_CHANNEL = 48 << 10;

  private static final int FEW_CHANNELS = 32;

  /**
   * The key of an exchange's times in cost models: whole exchanges are predicted and measured, with
   * whatever protocols their messages have at a size.
   */
  private static final Protocol OF_EXCHANGES = Protocol.SIMPLE;

  /** Smaller messages use kernels: a copy and its two notifications take some 10 us. */
  private static final long LEAST_COPIED = 1 << 20;

  /** A send and a receive at a time. */
  private static final int BOTH_WAYS = 2;

  private final CommunicatorProfile ranks;
  private final CostModel costs;
  private final CtaLimits ctas;
  private final long lineBytes;
  private final AlgorithmSelector selector;
  private final boolean copies;

  /**
   * Choices of some ranks.
   *
   * @param costs within the limits of the rules
   * @param hasCopyEngines whether their devices can copy without a kernel
   */
  public MessageChoices(
      CommunicatorProfile ranks, CostModel costs, Planner.Rules rules, boolean hasCopyEngines) {
    this.ranks = ranks;
    this.costs = costs;
    this.ctas = rules.ctas();
    this.lineBytes = rules.lineBytes();
    this.selector = new AlgorithmSelector(costs, rules.filter(), rules.edit());
    this.copies = hasCopyEngines && rules.filter().demands(Operation.SEND, Algorithm.COPY_ENGINE);
  }

  /** The ranks that exchange messages. */
  int nRanks() {
    return ranks.nRanks();
  }

  /** Predicted microseconds of an operation that consists of sends and receives. */
  double predict(Operation operation, long bytes, DataType type) {
    return choice(operation, bytes, type).microseconds();
  }

  /** True if messages of an operation can go by rails. */
  public boolean hasRails(Operation operation) {
    return ranks.spread().hasRails() && Algorithm.RAILS.has(operation);
  }

  /** Bytes of the largest message to another host by rails. */
  long railBytes(long part) {
    return ranks.spread().mostRanks() * part;
  }

  /**
   * Predicted microseconds of a way at another size than the one that it was chosen for.
   *
   * @param bytes of a part
   */
  public double microseconds(Operation operation, AlgorithmChoice way, long bytes) {
    if (!hasRails(operation)) {
      return predictPairwise(operation, way.protocol(), bytes);
    }
    Algorithm algorithm = way.algorithm() == Algorithm.RAILS ? Algorithm.RAILS : Algorithm.PAIRWISE;
    return CostModel.predicted(
        costs.microseconds(operation, algorithm, OF_EXCHANGES, bytes * nRanks()));
  }

  private double predictPairwise(Operation operation, Protocol protocol, long bytes) {
    int others = operation.isP2p() ? 1 : Math.max(1, nRanks() - 1);
    return costs.messages(nRanks(), others, protocol, bytes);
  }

  /**
   * The algorithm of an operation, and the protocol of its messages, those to other hosts by rails;
   * the copy engines where they carry the messages.
   *
   * @param bytes of a part
   */
  public AlgorithmChoice choice(Operation operation, long bytes, DataType type) {
    Algorithm without = isCopied(bytes) ? Algorithm.COPY_ENGINE : Algorithm.PAIRWISE;
    if (!hasRails(operation)) {
      return new AlgorithmChoice(
          without,
          protocol(operation, bytes),
          predictPairwise(operation, protocol(operation, bytes), bytes));
    }
    AlgorithmChoice choice = selector.chooseExchange(operation, bytes * nRanks(), type);
    boolean byRails = choice.algorithm() == Algorithm.RAILS;
    return new AlgorithmChoice(
        byRails ? Algorithm.RAILS : without,
        protocol(operation, byRails ? railBytes(bytes) : bytes),
        CostModel.predicted(choice.microseconds()));
  }

  /**
   * The ways of an operation that may be measured against each other: first the one of {@link
   * #choice}. One alone where nothing is known of the other, or the settings do not allow it.
   *
   * @param bytes of a part
   */
  List<AlgorithmChoice> choices(Operation operation, long bytes, DataType type) {
    AlgorithmChoice chosen = choice(operation, bytes, type);
    return hasRails(operation) && isExchange(chosen.algorithm())
        ? selector.exchanges(operation, bytes * nRanks(), type).stream()
            .filter(
                choice ->
                    choice.algorithm() == chosen.algorithm()
                        || choice.microseconds() < CostModel.ONLY_WHERE_ASKED)
            .toList()
        : List.of(chosen);
  }

  private static boolean isExchange(Algorithm algorithm) {
    return algorithm == Algorithm.PAIRWISE || algorithm == Algorithm.RAILS;
  }

  /** Returns the origin of the time of a {@link #choice}, in a few words. */
  public String source(Operation operation, AlgorithmChoice choice) {
    return hasRails(operation)
        ? costs.source(operation, choice.algorithm(), OF_EXCHANGES)
        : costs.messageSource(choice.protocol());
  }

  /** Returns the limits of protocols, as a line to read. */
  String explain(Operation operation) {
    boolean set = lineBytes >= 0 && ranks.kind() == Device.Kind.CUDA;
    return "%s consists of sends and receives: %s up to %d bytes %s, else Simple%s%n"
        .formatted(
            operation.key(),
            costs.smallSendProtocol().label(),
            set ? lineBytes : costs.smallSendBytes(operation),
            set ? "of each channel (NCCL_P2P_LL_THRESHOLD)" : "each",
            copies ? "; copy engines from %d bytes on".formatted(LEAST_COPIED) : "");
  }

  /** Returns the time of a way of messages and where it comes from, as a text to read. */
  String explain(Operation operation, Algorithm algorithm, long bytes) {
    double time = costs.microseconds(operation, algorithm, OF_EXCHANGES, bytes * nRanks());
    return time < CostModel.ONLY_WHERE_ASKED
        ? String.format(
            Locale.ROOT, "%12.2f us  %s", time, costs.source(operation, algorithm, OF_EXCHANGES))
        : "not measured: used only if NCCL_ALGO names it";
  }

  /** Messages to and from other ranks, and the copy of a rank's own part; at most of all ranks. */
  int messages(Operation operation) {
    int others = nRanks() - 1;
    return switch (operation) {
      case ALL_TO_ALL -> 2 * others + 1;
      case GATHER, SCATTER -> others + 1;
      default -> BOTH_WAYS; // as in a group with others, whose sizes differ from rank to rank
    };
  }

  /**
   * Most channels of each of so many messages that are under way at once; 0 for no limit.
   *
   * @param rank one end of the message
   * @param peer the other, which gets the same answer
   */
  int channels(int messages, int rank, int peer) {
    return fewer(ctas.channels(messages), ranks.channels(rank, peer));
  }

  /** The lower of two limits, of which 0 is none. */
  private static int fewer(int one, int other) {
    return one == 0 || other == 0 ? Math.max(one, other) : Math.min(one, other);
  }

  /** True if copy engines do a message; the same at both ends. */
  boolean isCopied(long bytes) {
    return copies && bytes >= LEAST_COPIED;
  }

  /** The protocol of a message of an operation. */
  Protocol protocol(Operation operation, long bytes) {
    if (isSmall(operation, bytes)) {
      return costs.smallSendProtocol();
    }
    return bytes <= lineSendBytes(operation) ? Protocol.LL128 : Protocol.SIMPLE;
  }

  /** NCCL_P2P_LL_THRESHOLD limits the bytes of each channel. */
  private boolean isSmall(Operation operation, long bytes) {
    if (lineBytes < 0 || ranks.kind() == Device.Kind.HOST) {
      return bytes <= costs.smallSendBytes(operation);
    }
    int links = fewer(ranks.fewestChannels(), carriedChannels());
    int most = fewer(ctas.channels(messages(operation)), links);
    int channels = CudaDevice.lineChannels(bytes, most == 0 ? ConnectionLayout.CHANNELS : most);
    return costs.smallSendBytes(operation) >= 0 && bytes <= channels * lineBytes;
  }

  /** Channels of every connection that proxies carry; 0 if they carry none. */
  private int carriedChannels() {
    return ranks.spread().carried() ? ranks.spread().pairChannels() : 0;
  }

  /** Most bytes of a send in LL128; few blocks carry less in it than in Simple. */
  private long lineSendBytes(Operation operation) {
    long most = costs.lineSendBytes(operation);
    int channels = ctas.channels(messages(operation));
    return channels == 0 || channels >= FEW_CHANNELS
        ? most
        : Math.min(most, channels * LINE_BYTES_OF_CHANNEL);
  }
}
