package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;

/**
 * A rank's own share of the work of a quantised sum, on its own memory: between such steps, copies
 * bring the parts to the ranks.
 *
 * @param index the rank's part
 * @param copies of the elements that {@link Step#QUANTISE} adds first
 * @param residual float32 for each element of all parts; null for none. {@link Step#QUANTISE} adds
 *     it to the elements and keeps the errors there; {@link Step#SUM_AND_QUANTISE} adds the errors
 *     of the sum of the rank's part
 * @param mostBlocks that its kernel may have on a GPU; 0 for no limit
 */
public record QuantisedWork(
    Step step, Parts parts, int index, Copies copies, DeviceMemory residual, int mostBlocks) {
  /**
   * Copies of the elements of all parts, one after the other in the send buffer.
   *
   * @param number at least 1
   * @param stride bytes from the start of one to that of the next
   */
  public record Copies(int number, long stride) {
    /** The elements alone. */
    public static final Copies ONE = new Copies(1, 0);
  }

  /** A step. */
  public enum Step {
    /**
     * Makes all parts (receive buffer) from elements (send buffer); of several copies from their
     * sum in float32, in their order.
     */
    QUANTISE,
    /**
     * Adds the copies of the rank's part (send) in float32, in their order, to elements (receive).
     */
    SUM,
    /** Adds as SUM does, and quantises the sum to one part (receive). */
    SUM_AND_QUANTISE,
    /** Makes elements (receive) of all parts (send). */
    DEQUANTISE
  }

  /**
   * The exchanges between the steps of a call. Their data carry a mark, so that ranks that call
   * another operation or go another way do not take each other's data for their own.
   */
  public enum Exchange {
    /** Of an all-reduce, all ranks with all. */
    ALL_REDUCE("a quantised all_reduce"),
    /** Of a reduce-scatter, all ranks with all. */
    REDUCE_SCATTER("a quantised reduce_scatter"),
    /** Of plain copies within hosts. */
    COPIES_OF_ALL_REDUCE("copies of a quantised all_reduce within hosts"),
    COPIES_OF_REDUCE_SCATTER("copies of a quantised reduce_scatter within hosts"),
    /** Of parts between hosts, and of those of the sum to all ranks. */
    PARTS_OF_ALL_REDUCE("parts of a quantised all_reduce between hosts"),
    PARTS_OF_REDUCE_SCATTER("parts of a quantised reduce_scatter between hosts");

    private static final Exchange[] ALL = values();

    private final String text;

    Exchange(String text) {
      this.text = text;
    }

    /** Returns the mark in the shapes of its messages. */
    public int mark() {
      return CallShape.FIRST_EXCHANGE + ordinal();
    }

    /** Returns the text for messages about a mark; null for that of a function. */
    static String text(int mark) {
      int number = mark - CallShape.FIRST_EXCHANGE;
      return number >= 0 && number < ALL.length ? ALL[number].text : null;
    }
  }

  /**
   * The layout of a quantised buffer: a part for each rank, each with its codes, then a float32
   * scale for each block of them. An element is its code's number times its block's scale.
   *
   * <p>The bytes of a part differ between calls that differ in type, format, block or operator
   * alone, so that ranks whose calls differ do not take each other's parts for their own.
   *
   * @param type of the elements: {@link #hasType}
   * @param format of the codes: FLOAT8_E4M3 or INT8
   * @param block elements that share a scale
   * @param divisor of the sum: 1 for a sum, else the number of ranks whose mean it becomes
   * @param nParts the number of parts
   * @param part elements of a part; the last parts may have fewer, or none
   * @param count elements of all parts
   */
  public record Parts(
      DataType type, DataType format, int block, int divisor, int nParts, long part, long count) {
    /** Bytes of a scale. */
    public static final int SCALE_BYTES = Float.BYTES;

    /** The number that a block's greatest magnitude becomes as FLOAT8_E4M3. */
    public static final float MOST_FP8 = 448;

    /** The number that a block's greatest magnitude becomes as INT8. */
    public static final float MOST_INT8 = 127;

    /**
     * Blocks of smaller magnitudes have the scale of this one: a smaller scale's inverse overflows.
     */
    public static final float LEAST = 0x1p-100f;

    /** Bits of infinity, which those of a NaN's magnitude are greater than. */
    private static final int INFINITY = 0x7f800000;

    private static final int UNIT = 16;
    private static final int TYPES = DataType.values().length;

    /** True for a type that can be quantised: floating-point, of 2 or 4 bytes. */
    public static boolean hasType(DataType type) {
      return type.isFloatingPoint() && (type.bytes() == Short.BYTES || type.bytes() == Float.BYTES);
    }

    /**
     * True for a block of numbers alone. The codes of another block are 0 and its scale is NaN.
     *
     * @param most the greatest bits of a magnitude in it
     */
    @HotPath
    public static boolean isFinite(int most) {
      return most < INFINITY;
    }

    /**
     * Returns the magnitude that becomes a number of a format: an element times {@code top /
     * greatest} is rounded to its code.
     *
     * @param most the greatest bits of a magnitude in the block
     * @param top {@link #MOST_FP8} or {@link #MOST_INT8}
     */
    @HotPath
    public static float greatest(int most, float top) {
      return most == 0 ? top : Math.max(Float.intBitsToFloat(most), LEAST);
    }

    /** Returns a block's scale; times top it is finite. */
    @HotPath
    public static float scale(float greatest, float top) {
      float scale = greatest / top;
      return scale * top < Float.POSITIVE_INFINITY ? scale : Math.nextDown(scale);
    }

    /** Returns the blocks of a part. */
    public long blocks() {
      return (part + block - 1) / block;
    }

    /** Returns the place of a part's first scale, in bytes from its begin. */
    public long scales() {
      return blocks() * block;
    }

    /** Returns the bytes of a part, a multiple of 16. */
    public long bytes() {
      long data = scales() + blocks() * SCALE_BYTES;
      return (data + UNIT - 1) / UNIT * UNIT + (long) UNIT * kind();
    }

    /** Tells calls apart whose codes and scales have the same bytes. */
    private int kind() {
      int ofFormat = format == DataType.INT8 ? TYPES : 0;
      return (ofFormat + type.ordinal()) * 2 + (divisor > 1 ? 1 : 0);
    }

    /** Returns the elements of one part. */
    public long elements(int index) {
      return Math.max(0, Math.min(part, count - index * part));
    }

    /** Returns the number that a block's greatest magnitude becomes. */
    public float most() {
      return format == DataType.INT8 ? MOST_INT8 : MOST_FP8;
    }
  }

  /** Returns the bytes of the send buffer. */
  public long sendBytes() {
    return step == Step.QUANTISE
        ? (copies.number() - 1) * copies.stride() + elementBytes(parts.count())
        : parts.nParts() * parts.bytes();
  }

  /** Returns the bytes of the receive buffer. */
  public long recvBytes() {
    return switch (step) {
      case QUANTISE -> parts.nParts() * parts.bytes();
      case SUM -> elementBytes(parts.elements(index));
      case SUM_AND_QUANTISE -> parts.bytes();
      case DEQUANTISE -> elementBytes(parts.count());
    };
  }

  private long elementBytes(long elements) {
    return elements * parts.type().bytes();
  }
}
