package org.nccl4j.device.host.reduce;

import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.MachineCode;

/**
 * Sums of two memories by vector instructions on the memories themselves. The JVM compiles such
 * loops over arrays alone, which the operands have to be copied into and the sums out of. So this
 * class brings machine code for x86-64, of SSE2, which every such processor has.
 *
 * <p>Sums are those of the JVM: of floating-point numbers each is rounded once, to nearest even;
 * integers wrap around.
 */
final class VectorSum {
  /** Bytes of a step of the loop. */
  static final int STEP = 64;

  /** Fewer bytes are added as soon one by one: the call costs twenty nanoseconds. */
  static final int LEAST_BYTES = 128;

  /**
   * The function (a, b, to, bytes) of each kind, where bytes is a multiple of {@link #STEP} and not
   * 0; P and OP are the kind's.
   *
   * <pre>
   * 1: movups xmm0..3, [rdi + 0..48]
   *    movups xmm4..7, [rsi + 0..48]
   *    P 0f OP         xmm0..3 += xmm4..7
   *    movups [rdx + 0..48], xmm0..3
   *    add rdi, 64; add rsi, 64; add rdx, 64; sub rcx, 64; jnz 1
   *    xor eax, eax; ret
   * </pre>
   */
  private static final String CODE =
      "0f1007 0f104f10 0f105720 0f105f30"
          + " 0f1026 0f106e10 0f107620 0f107e30"
          + " P0fOPc4 P0fOPcd P0fOPd6 P0fOPdf"
          + " 0f1102 0f114a10 0f115220 0f115a30"
          + " 4883c740 4883c640 4883c240 4883e940 75b1"
          + " 31c0 c3";

  /** Bytes of one function. */
  private static final int CODE_BYTES = 82;

  /** Elements that one instruction adds. */
  private enum Kind {
    /** addps, with a prefix of no effect that makes it as long as the others. */
    FLOATS("40", "58"),
    /** addpd. */
    DOUBLES("66", "58"),
    /** paddb. */
    BYTES("66", "fc"),
    /** paddd. */
    INTS("66", "fe"),
    /** paddq. */
    LONGS("66", "d4");

    final String prefix;
    final String opcode;

    Kind(String prefix, String opcode) {
      this.prefix = prefix;
      this.opcode = opcode;
    }

    /** The kind of a type; null for types whose sums are not one instruction's. */
    static Kind of(DataType type) {
      return switch (type) {
        case FLOAT32 -> FLOATS;
        case FLOAT64 -> DOUBLES;
        case INT8, UINT8 -> BYTES;
        case INT32, UINT32 -> INTS;
        case INT64, UINT64 -> LONGS;
        default -> null;
      };
    }
  }

  /** Its users keep it, so that its class can be unloaded after the last of them. */
  private static WeakReference<MachineCode> shared = new WeakReference<>(null);

  private final MachineCode code;
  private final NativeFunction.OfFour function; // null where the code cannot run

  private VectorSum(MachineCode code, Kind kind) {
    this.code = code;
    this.function =
        code.isAvailable()
            ? new NativeFunction.OfFour(code.address() + (long) kind.ordinal() * CODE_BYTES)
            : null;
  }

  /** True for types that this class adds. */
  static boolean has(DataType type) {
    return Kind.of(type) != null;
  }

  /** The sum of a type's elements; only of a type that it has. */
  static VectorSum of(DataType type) {
    return new VectorSum(code(), Kind.of(type));
  }

  private static synchronized MachineCode code() {
    MachineCode code = shared.get();
    if (code == null) {
      StringBuilder all = new StringBuilder();
      for (Kind kind : Kind.values()) {
        all.append(CODE.replace("OP", kind.opcode).replace("P", kind.prefix));
      }
      code = MachineCode.of(all.toString());
      shared = new WeakReference<>(code);
    }
    return code;
  }

  /** True if this machine can add so. */
  boolean isAvailable() {
    return function != null;
  }

  /**
   * target = a + b. The target may be a or b at the same offset; other overlaps may not be.
   *
   * @param bytes a multiple of {@link #STEP}, and not 0
   */
  @HotPath
  void add(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int bytes) {
    function.call(
        a.address() + aOffset, b.address() + bOffset, target.address() + targetOffset, bytes);
    Reference.reachabilityFence(code);
  }
}
