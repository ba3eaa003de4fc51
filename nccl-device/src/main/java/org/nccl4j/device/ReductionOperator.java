package org.nccl4j.device;

import java.lang.reflect.Proxy;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.List;

/**
 * A reduction that {@link RedOp} does not have: a pre-multiplied sum, or a function of the user,
 * given for the host device as Java and for GPUs as CUDA C++. Immutable; can be used in any
 * communicator, by several threads. Every rank passes the same one; only scalars may differ from
 * rank to rank. Ranks whose functions have different {@link #mark}s make different calls. Keep it
 * and use it again: a communicator plans the operations of each operator once.
 *
 * <p>A function must be associative. It need not be commutative if that is said ({@link
 * Builder#notCommutative}): then it combines the ranks' elements in the order of the ranks. On GPUs
 * it does so always, each element as f(f(f(x0, x1), x2), x3), so that the result has the same bits
 * on all ranks, by all algorithms and over all transports.
 *
 * <p>Functions of structs ({@link #functionOfStructs}) are used with {@link DataType#UINT8} and
 * counts in bytes, which are multiples of the struct's size.
 */
public final class ReductionOperator {
  /**
   * Combines elements of two buffers. Must be associative, and commutative unless the operator says
   * that it is not, since the order in which ranks are combined depends on algorithm and size. Must
   * not keep the buffers.
   */
  @FunctionalInterface
  public interface Combiner {
    /**
     * Sets target[i] = a[i] op b[i] for all i below count. Element i is at byte i times the type's
     * size, in the machine's byte order; for structs i times the struct's size, and the type is
     * UINT8. The target may be the same memory as a or as b.
     *
     * <p>One thread at a time calls it for an operation; several threads may for several
     * operations.
     */
    void combine(ByteBuffer a, ByteBuffer b, ByteBuffer target, int count, DataType type);
  }

  /** Most bytes of a struct. */
  public static final int MOST_STRUCT_BYTES = 4096;

  private final String name;
  private final Combiner combiner;
  private final DataType type;
  private final double value;
  private final long whole;
  private final DeviceMemory memory;
  private final CudaFunctor functor;
  private final int elementBytes;
  private final boolean structs;
  private final boolean commutative;

  /** Marks for the host device and for GPUs; 0 without a function. */
  private final int hostMark;

  private final int cudaMark;

  /** A pre-multiplied sum. */
  private ReductionOperator(DataType type, double value, long whole, DeviceMemory memory) {
    this.name = "premulsum";
    this.combiner = null;
    this.type = type;
    this.value = value;
    this.whole = whole;
    this.memory = memory;
    this.functor = null;
    this.elementBytes = type.bytes();
    this.structs = false;
    this.commutative = true;
    this.hostMark = 0;
    this.cudaMark = 0;
  }

  /** A function. */
  private ReductionOperator(Builder made) {
    this.name = made.name;
    this.combiner = made.combiner;
    this.type = made.type;
    this.value = 0;
    this.whole = 0;
    this.memory = null;
    this.functor = made.functor;
    this.elementBytes = made.elementBytes;
    this.structs = made.structs;
    this.commutative = made.commutative;
    this.hostMark = combiner == null ? 0 : Mark.of(facts(), combiner);
    this.cudaMark = functor == null ? 0 : Mark.of(facts(), functor);
  }

  /** Words about the function beside its code. */
  private List<String> facts() {
    return List.of(
        name,
        type == null ? "any" : type.label(),
        Integer.toString(elementBytes),
        structs ? "structs" : "elements",
        commutative ? "commutative" : "in order");
  }

  /** Makes an operator of a function. Used by one thread. */
  public static final class Builder {
    private final String name;
    private final DataType type;
    private final int elementBytes;
    private final boolean structs;
    private Combiner combiner;
    private CudaFunctor functor;
    private boolean commutative = true;

    private Builder(String name, DataType type, int elementBytes, boolean structs) {
      this.name = Arguments.notNull(name, "name of the reduction");
      this.type = type;
      this.elementBytes = elementBytes;
      this.structs = structs;
    }

    /** Sets the function for the host device. Without it the host device refuses the operator. */
    public Builder onHost(Combiner function) {
      combiner = Arguments.notNull(function, "reduction");
      return this;
    }

    /** Sets the function for GPUs. Without it GPUs refuse the operator. */
    public Builder onCuda(CudaFunctor function) {
      functor = Arguments.notNull(function, "CUDA functor");
      return this;
    }

    /**
     * Says that f(a, b) may differ from f(b, a). Elements are then combined in the order of the
     * ranks, also on the host device, where that takes more copies.
     */
    public Builder notCommutative() {
      commutative = false;
      return this;
    }

    /**
     * Makes the operator.
     *
     * @throws InvalidUsageException if it has no function
     */
    public ReductionOperator build() {
      if (combiner == null && functor == null) {
        throw new InvalidUsageException(
            "the reduction %s has a function neither for the host device nor for GPUs"
                .formatted(name),
            "call onHost, onCuda or both before build");
      }
      return new ReductionOperator(this);
    }
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
      return new ReductionOperator(type, scalar, 0, null);
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
      return new ReductionOperator(type, value, 0, null);
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
    return new ReductionOperator(type, 0, scalar.longValue(), null);
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
    return new ReductionOperator(type, 0, 0, scalar);
  }

  /**
   * A reduction of elements of any type by a commutative function that the host device calls. GPUs
   * refuse it.
   *
   * @param name for messages; the same on all ranks, another for another function
   */
  public static ReductionOperator of(String name, Combiner combiner) {
    return new Builder(name, null, 0, /* structs= */ false).onHost(combiner).build();
  }

  /**
   * Begins a reduction of elements of a type by a function.
   *
   * @param name for messages; the same on all ranks, another for another function
   */
  public static Builder function(String name, DataType type) {
    return new Builder(name, typed(type), type.bytes(), /* structs= */ false);
  }

  /**
   * Begins a reduction of structs by a function.
   *
   * @param name for messages; the same on all ranks, another for another function
   * @param bytes of a struct, as sizeof in C++: 1 to {@value #MOST_STRUCT_BYTES}. On GPUs buffers
   *     begin at multiples of the greatest power of two that divides it, at most 16
   * @throws InvalidArgumentException for another size
   */
  public static Builder functionOfStructs(String name, int bytes) {
    if (bytes < 1 || bytes > MOST_STRUCT_BYTES) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "the reduction %s is of structs of %d bytes".formatted(name, bytes),
          "pass 1 to %d bytes".formatted(MOST_STRUCT_BYTES));
    }
    return new Builder(name, DataType.UINT8, bytes, /* structs= */ true);
  }

  private static DataType typed(DataType type) {
    return Arguments.notNull(type, "type of the elements");
  }

  /** Returns the name for messages. */
  public String name() {
    return name;
  }

  /** True for a function of the user, false for a pre-multiplied sum. */
  public boolean isFunction() {
    return combiner != null || functor != null;
  }

  /** The user's function for the host device, or null. */
  public Combiner combiner() {
    return combiner;
  }

  /** The user's function for GPUs, or null. */
  public CudaFunctor functor() {
    return functor;
  }

  /**
   * A number that stands for the function on a kind of device, in the comparison of the ranks'
   * calls: 1 to 65535; 0 if there is none. It is made of the name for messages, the type or the
   * size of the structs, whether the function is commutative, and of the function: of CUDA C++ its
   * class's name, source and options of the compiler other than include folders, or its image; of a
   * cubin, which is for one kind of GPU, the name alone; of Java the class's name; of a lambda and
   * a method reference the name of the class that has it; of a proxy nothing more. Of two functions
   * that differ in these the marks are the same in one case of 65535.
   */
  public int mark(Device.Kind kind) {
    return kind == Device.Kind.HOST ? hostMark : cudaMark;
  }

  /** Bytes that the function combines at once: of an element, or of a struct; 0 for any type's. */
  public int elementBytes() {
    return elementBytes;
  }

  /** True unless the function was said not to be commutative. */
  public boolean isCommutative() {
    return commutative;
  }

  /** True for a function of structs. */
  public boolean isOfStructs() {
    return structs;
  }

  /** The type of the elements: UINT8 for structs; null for any. */
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

  /** Makes marks, the same in all processes. */
  private static final class Mark {
    /** Behind the name of a class, in the names of its lambdas' classes. */
    private static final String LAMBDA = "$$Lambda";

    private static final byte[] CUBIN = {0x7f, 'E', 'L', 'F'};
    private static final int MOST = 65535;

    private final MessageDigest digest;

    private Mark(List<String> facts) {
      try {
        digest = MessageDigest.getInstance("SHA-256");
      } catch (NoSuchAlgorithmException e) {
        throw new AssertionError(e); // every JDK has it
      }
      facts.forEach(this::put);
    }

    /** The mark of a function in Java. */
    static int of(List<String> facts, Combiner combiner) {
      return new Mark(facts).put("java").put(name(combiner.getClass())).value();
    }

    /**
     * The part of a class's name that is the same in all processes: of a lambda, the class that has
     * it; of other classes that are made at run time, nothing.
     */
    private static String name(Class<?> its) {
      int lambda = its.getName().indexOf(LAMBDA);
      if (lambda >= 0) {
        return its.getName().substring(0, lambda);
      }
      boolean named = !its.isHidden() && !its.isSynthetic() && !Proxy.isProxyClass(its);
      return named ? its.getName() : "";
    }

    /** The mark of a function for GPUs. */
    static int of(List<String> facts, CudaFunctor functor) {
      Mark mark = new Mark(facts).put("cuda").put(functor.name());
      byte[] image = functor.image();
      if (image == null) {
        mark.put("source").put(functor.source());
        functor.compilerOptions().stream()
            .filter(option -> !option.startsWith("-I") && !option.startsWith("--include-path"))
            .forEach(mark::put);
      } else if (!isCubin(image)) {
        mark.put("image").put(image);
      }
      return mark.value();
    }

    private static boolean isCubin(byte[] image) {
      return image.length >= CUBIN.length
          && Arrays.equals(image, 0, CUBIN.length, CUBIN, 0, CUBIN.length);
    }

    private Mark put(String text) {
      return put(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Puts bytes behind their number, so that no two lists of parts are the same bytes. */
    private Mark put(byte[] bytes) {
      digest.update((bytes.length + ":").getBytes(StandardCharsets.UTF_8));
      digest.update(bytes);
      return this;
    }

    private int value() {
      byte[] hash = digest.digest();
      int number = (hash[0] & 0xff) << 16 | (hash[1] & 0xff) << 8 | hash[2] & 0xff;
      return 1 + number % MOST;
    }
  }
}
