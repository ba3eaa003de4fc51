package org.nccl4j.device.kernel;

import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * A rank's place in NVLS and the memory that it works on.
 *
 * @param layout of the memory
 * @param members ranks of this rank's machine
 * @param heads those of them that combine a part each; up, in NCCL's words
 * @param headRank which of the heads this rank is, or -1; down, in NCCL's words
 * @param unicast this rank's own memory; null while it is not made
 * @param multicast all members' memories, in their order; none while they are not made
 * @param trees where there are other machines, a head's places in the two trees that it forms with
 *     their heads of the same number; empty for a rank that is no head, and on a single machine
 * @param machines how many
 * @param combinesBytes whether the switches of all machines combine floating-point numbers of 8
 *     bits
 */
public record Nvls(
    NvlsLayout layout,
    List<Integer> members,
    List<Integer> heads,
    int headRank,
    DeviceMemory unicast,
    MulticastMemory multicast,
    List<Tree> trees,
    int machines,
    boolean combinesBytes) {
  /** On a single machine, where every rank is a head. */
  public Nvls(
      NvlsLayout layout,
      List<Integer> heads,
      int headRank,
      DeviceMemory unicast,
      MulticastMemory multicast) {
    this(
        layout,
        heads,
        heads,
        headRank,
        unicast,
        multicast,
        /* trees= */ List.of(),
        /* machines= */ 1,
        /* combinesBytes= */ false);
  }

  /** The same among several machines. */
  public Nvls among(int count, List<Tree> places) {
    return new Nvls(
        layout, members, heads, headRank, unicast, multicast, places, count, combinesBytes);
  }

  /** True if there is memory; else it is made at the first operation that takes NVLS. */
  public boolean isMade() {
    return unicast != null;
  }

  /** True if every rank combines a part, as all-gather and reduce-scatter need it. */
  public boolean allAreHeads() {
    return heads.size() == members.size();
  }

  /** True if NVLS has a collective at all. */
  public static boolean has(Operation operation) {
    return Algorithm.NVLS.has(operation);
  }

  /**
   * True if NVLS has a collective for a type and an operator. The switch combines (PTX,
   * multimem.ld_reduce) sums of all types of 16 bits and more, least and greatest of integers of 32
   * bits and more and of 16-bit floating-point types. A mean is a sum that the ranks scale: through
   * slots before it is added, in place afterwards. The emulations keep to the same.
   */
  public static boolean has(Operation operation, DataType type, RedOp op) {
    if (!has(operation) || operation == Operation.ALL_GATHER) {
      return has(operation);
    }
    return switch (op) {
      case SUM, AVG -> type.bytes() >= 2;
      case MAX, MIN -> type.isFloatingPoint() ? type.bytes() == 2 : type.bytes() >= 4;
      case PROD -> false;
    };
  }

  /**
   * True if this NVLS has a collective for a type and an operator: as {@link #has(Operation,
   * DataType, RedOp)} says, and where the switches combine floating-point numbers of 8 bits also
   * their sums and extremes. Means would have to be scaled before they are added, and 8 bits hold
   * too few of the scaled numbers.
   */
  public boolean combines(Operation operation, DataType type, RedOp op) {
    return has(operation, type, op)
        || combinesBytes
            && has(operation)
            && type.isFloat8()
            && op != RedOp.PROD
            && op != RedOp.AVG;
  }

  /** The same of an algorithm; true for algorithms without multicast. */
  public boolean combines(Operation operation, Algorithm algorithm, DataType type, RedOp op) {
    return has(operation, algorithm, type, op)
        || algorithm == Algorithm.DIRECT_NVLS
            && algorithm.has(operation)
            && combines(operation, type, op);
  }

  /** True if a direct algorithm by multicast has an operation for a type and an operator. */
  public static boolean has(WindowWork work) {
    return has(work.operation(), work.algorithm(), work.type(), work.op());
  }

  /** Same as {@link #has(WindowWork)}, and also true for algorithms without multicast. */
  public static boolean has(Operation operation, Algorithm algorithm, DataType type, RedOp op) {
    if (!algorithm.isMulticast()) {
      return true;
    }
    if (!algorithm.has(operation) || operation == Operation.ALL_GATHER) {
      return algorithm.has(operation);
    }
    return has(operation, type, op);
  }
}
