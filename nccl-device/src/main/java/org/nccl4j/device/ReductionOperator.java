package org.nccl4j.device;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;

/**
 * A reduction that {@link RedOp} does not have: a pre-multiplied sum, on any device, or a function
 * of the user, on the host device. Immutable; can be used in any communicator, by several threads.
 * Every rank passes one of the same kind; scalars may differ from rank to rank. Keep it and use it
 * again: a communicator plans the operations of each operator once.
 */
public final class ReductionOperator {
  /**
   * Combines elements of two buffers. Must be associative and commutative, since the order in which
   * ranks are combined depends on algorithm and size, and must not keep the buffers.
   */
  @FunctionalInterface
  public interface Combiner {
    /**
     * Sets target[i] = a[i] op b[i] for all i below count. Element i is at byte i times the type's
     * size, in the machine's byte order. The target may be the same memory as a or as b.
     *
     * <p>One thread at a time calls it for an operation; several threads may for several
     * operations.
     */
    void combine(ByteBuffer a, ByteBuffer b, ByteBuffer target, int count, DataType type);
  }

  private final String name;
  private final Combiner combiner;
  private final DataType type;
  private final double value;
  private final long whole;
  private final DeviceMemory memory;

  private ReductionOperator(
      String name,
      Combiner combiner,
      DataType type,
      double value,
      long whole,
      DeviceMemory memory) {
    this.name = name;
    this.combiner = combiner;
    this.type = type;
    this.value = value;
    this.whole = whole;
    this.memory = memory;
  }

  /**
   * The sum of each rank's elements times its scalar.
   *
   * @param type of the elements
   * @param scalar this rank's, rounded to the type; for integers toward zero
   * @throws InvalidArgumentException for integers if it is not a number or not in the type's range
   */
  public static ReductionOperator preMulSum(DataType type, double scalar) {
    if (typed(type).isFloatingPoint()) {
      return new ReductionOperator("premulsum", null, type, scalar, 0, null);
    }
    if (Double.isNaN(scalar) || Double.isInfinite(scalar)) {
      throw outOfRange(type, String.valueOf(scalar));
    }
    return preMulSum(type, new BigDecimal(scalar).toBigInteger());
  }

  /**
   * Same as {@link #preMulSum(DataType, double)}, but the scalar is exact in all 64 bits.
   *
   * @param scalar this rank's; for {@link DataType#UINT64} its bits are an unsigned number
   * @throws InvalidArgumentException for integers if it is not in the type's range
   */
  public static ReductionOperator preMulSum(DataType type, long scalar) {
    if (typed(type).isFloatingPoint()) {
      double value = type == DataType.FLOAT32 ? (float) scalar : (double) scalar;
      return new ReductionOperator("premulsum", null, type, value, 0, null);
    }
    BigInteger number = BigInteger.valueOf(scalar);
    return preMulSum(
        type,
        type == DataType.UINT64 && scalar < 0 ? number.add(BigInteger.ONE.shiftLeft(64)) : number);
  }

  private static ReductionOperator preMulSum(DataType type, BigInteger scalar) {
    int bits = type.bytes() * 8;
    boolean signed = type == DataType.INT8 || type == DataType.INT32 || type == DataType.INT64;
    if (signed ? scalar.bitLength() >= bits : scalar.signum() < 0 || scalar.bitLength() > bits) {
      throw outOfRange(type, scalar.toString());
    }
    return new ReductionOperator("premulsum", null, type, 0, scalar.longValue(), null);
  }

  private static InvalidArgumentException outOfRange(DataType type, String scalar) {
    return new InvalidArgumentException(
        ErrorId.TYPE,
        "the scalar %s of a pre-multiplied sum is not an element of %s"
            .formatted(scalar, type.label()),
        "pass one in the type's range, or create the operator for another type");
  }

  /**
   * Same as {@link #preMulSum(DataType, double)}, but the scalar lies in memory. The operation
   * reads it when it runs, in stream order. On GPUs, each run of a graph reads it again.
   *
   * @param scalar one element of the type, on the communicator's device
   * @throws InvalidArgumentException if it is smaller
   */
  public static ReductionOperator preMulSum(DataType type, DeviceMemory scalar) {
    if (Arguments.notNull(scalar, "scalar's memory").size() < typed(type).bytes()) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "a scalar of %d bytes for elements of %s".formatted(scalar.size(), type.label()),
          "pass memory of %d bytes".formatted(type.bytes()));
    }
    return new ReductionOperator("premulsum", null, type, 0, 0, scalar);
  }

  /**
   * A reduction by a function that the host device calls. GPUs refuse it.
   *
   * @param name for messages
   */
  public static ReductionOperator of(String name, Combiner combiner) {
    return new ReductionOperator(
        Arguments.notNull(name, "name of the reduction"),
        Arguments.notNull(combiner, "reduction"),
        null,
        0,
        0,
        null);
  }

  private static DataType typed(DataType type) {
    return Arguments.notNull(type, "type of the elements");
  }

  /** Returns the name for messages. */
  public String name() {
    return name;
  }

  /** The user's function; null for a pre-multiplied sum. */
  public Combiner combiner() {
    return combiner;
  }

  /** The type of the elements; null for any. */
  public DataType type() {
    return type;
  }

  /** The scalar of a floating-point type, unless it is in memory. */
  public double value() {
    return value;
  }

  /** The scalar of an integer type, unless it is in memory; its low bits are the element. */
  public long whole() {
    return whole;
  }

  /** The memory of the scalar; null if the scalar is a value. */
  public DeviceMemory memory() {
    return memory;
  }
}
