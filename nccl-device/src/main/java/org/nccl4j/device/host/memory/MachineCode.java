package org.nccl4j.device.host.memory;

import java.util.HexFormat;
import java.util.function.Supplier;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.shm.MappedRegion;

/**
 * Machine code for x86-64 under System V's calling convention that the library brings, where
 * neither the JVM nor the C library has the like. Absent on other processors and systems, where
 * native access is denied, and where the system lets the process make no code: its users have
 * another way then.
 */
public final class MachineCode {
  /** Kept mapped while this is reachable. */
  private final MappedRegion region; // null where the code cannot run

  private final String problem;

  private MachineCode(MappedRegion region, String problem) {
    this.region = region;
    this.problem = problem;
  }

  /** The code of hexadecimal digits, between which there may be spaces. */
  public static MachineCode of(String digits) {
    return make(() -> MappedRegion.code(HexFormat.of().parseHex(digits.replace(" ", ""))));
  }

  static MachineCode make(Supplier<MappedRegion> code) {
    boolean fits =
        "amd64".equals(System.getProperty("os.arch"))
            && "Linux".equals(System.getProperty("os.name"));
    if (!fits || !NativeMemory.hasAddresses()) {
      return new MachineCode(null, "");
    }
    try {
      return new MachineCode(code.get(), "");
    } catch (NcclException e) { // though the JVM's own code was allowed
      return new MachineCode(null, e.problem());
    }
  }

  /** True if the code can run. */
  public boolean isAvailable() {
    return region != null;
  }

  /** The address of the first byte; only if the code can run. Callers keep this reachable. */
  public long address() {
    return region.address();
  }

  /** The error with which the system refuses code; empty if it does not. */
  public String problem() {
    return problem;
  }
}
