package org.nccl4j.device.host.memory;

import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.util.function.Supplier;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.shm.MappedRegion;

/**
 * Copies by streaming stores (movntdq), which write whole cache lines to memory without asking for
 * what was in them. Neither the JVM nor the C library has such a copy for sizes below the caches'.
 * So this class brings the machine code of one, for x86-64 under System V's calling convention.
 * Ends with sfence: a release store after it publishes the data.
 */
public final class StreamingCopy {
  /**
   * The function (from, to, bytes): bytes up to the first cache line of the target, lines, and the
   * rest.
   *
   * <pre>
   *    xchg rdi, rsi                 rdi: to, rsi: from
   *    mov rcx, rdi; neg rcx; and ecx, 63
   *    cmp rcx, rdx; cmova rcx, rdx
   *    sub rdx, rcx; rep movsb
   *    mov rcx, rdx; shr rcx, 6; jz 2
   * 1: movdqu xmm0..3, [rsi + 0..48]
   *    movntdq [rdi + 0..48], xmm0..3
   *    add rsi, 64; add rdi, 64; dec rcx; jnz 1
   * 2: mov ecx, edx; and ecx, 63; rep movsb
   *    sfence; xor eax, eax; ret
   * </pre>
   */
  private static final String CODE =
      "4887f7 4889f9 48f7d9 83e13f 4839d1 480f47ca 4829ca f3a4 4889d1 48c1e906 7433"
          + " f30f6f06 f30f6f4e10 f30f6f5620 f30f6f5e30"
          + " 660fe707 660fe74f10 660fe75720 660fe75f30"
          + " 4883c640 4883c740 48ffc9 75cd"
          + " 89d1 83e13f f3a4 0faef8 31c0 c3";

  /** Its users keep it, so that its class can be unloaded after the last of them. */
  private static WeakReference<StreamingCopy> shared = new WeakReference<>(null);

  private final MachineCode code;
  private final NativeFunction.OfThree function; // null where the code cannot run

  private StreamingCopy(MachineCode code) {
    this.code = code;
    this.function = code.isAvailable() ? new NativeFunction.OfThree(code.address()) : null;
  }

  /** The copy of this process, made at the first call and after all its users are gone. */
  public static synchronized StreamingCopy open() {
    StreamingCopy copy = shared.get();
    if (copy == null) {
      copy = new StreamingCopy(MachineCode.of(CODE));
      shared = new WeakReference<>(copy);
    }
    return copy;
  }

  static StreamingCopy make(Supplier<MappedRegion> code) {
    return new StreamingCopy(MachineCode.make(code));
  }

  /** True if this machine can copy so. */
  public boolean isAvailable() {
    return function != null;
  }

  /**
   * The reason why the system refuses such copies, with a remedy; empty if it does not, or if there
   * are none for the processor.
   */
  public String obstacle() {
    return code.problem().isEmpty()
        ? ""
        : ("copies of large data without streaming stores, and sums through arrays, since this"
                + " system lets the process make no code: %s (let it: SELinux' execmem, or a filter"
                + " of mprotect in a container)")
            .formatted(code.problem());
  }

  /** Copies bytes from address to address; the ranges must not overlap. */
  @HotPath
  public void copy(long from, long to, long bytes) {
    function.call(from, to, bytes);
    Reference.reachabilityFence(code);
  }
}
