package org.nccl4j.device;

/**
 * The type of one element. The order is NCCL's, so that {@link #ordinal()} is the number that NCCL
 * and our kernels use.
 */
public enum DataType {
  /** Signed 8-bit integer. */
  INT8("int8", 1),
  /** Unsigned 8-bit integer. */
  UINT8("uint8", 1),
  /** Signed 32-bit integer. */
  INT32("int32", 4),
  /** Unsigned 32-bit integer. */
  UINT32("uint32", 4),
  /** Signed 64-bit integer. */
  INT64("int64", 8),
  /** Unsigned 64-bit integer. */
  UINT64("uint64", 8),
  /** IEEE 754 binary16. */
  FLOAT16("half", 2, 11),
  /** IEEE 754 binary32. */
  FLOAT32("float", 4, 24),
  /** IEEE 754 binary64. */
  FLOAT64("double", 8, 53),
  /** The upper half of a binary32. */
  BFLOAT16("bfloat16", 2, 8),
  /** 4 exponent and 3 mantissa bits, no infinities (OCP FP8 E4M3). */
  FLOAT8_E4M3("f8e4m3", 1, 4),
  /** 5 exponent and 2 mantissa bits, with infinities (OCP FP8 E5M2). */
  FLOAT8_E5M2("f8e5m2", 1, 3);

  private final String label;
  private final int bytes;
  private final int significandBits;

  DataType(String label, int bytes) {
    this(label, bytes, 0);
  }

  DataType(String label, int bytes, int significandBits) {
    this.label = label;
    this.bytes = bytes;
    this.significandBits = significandBits;
  }

  /** The name that nccl-tests uses for it, such as "float" or "bfloat16". */
  public String label() {
    return label;
  }

  /** Bytes an element. */
  public int bytes() {
    return bytes;
  }

  /** True for the six floating-point types. */
  public boolean isFloatingPoint() {
    return significandBits > 0;
  }

  /** Bits of the significand of a floating-point type, with the hidden one; 0 for integers. */
  public int significandBits() {
    return significandBits;
  }

  /** True for the two 8-bit floating-point types. */
  public boolean isFloat8() {
    return isFloatingPoint() && bytes == 1;
  }
}
