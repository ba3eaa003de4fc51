package org.nccl4j.device.os;

import java.nio.file.Files;
import java.nio.file.Path;

/** Other processes of this host, as the kernel has them in /proc. Any thread. */
public final class OtherProcess {
  private static final Path PROCESSES = Path.of("/proc");

  private OtherProcess() {}

  /**
   * True if a process has ended, though its parent may not have asked for its status yet. One whose
   * first thread alone has ended goes on.
   */
  public static boolean hasEnded(long pid) {
    return hasEnded(PROCESSES, pid);
  }

  static boolean hasEnded(Path processes, long pid) {
    Path process = processes.resolve(Long.toString(pid));
    Path status = process.resolve("status");
    String state = ProcFile.field(status, "State").orElse("");
    if (state.isEmpty()) {
      return Files.notExists(process);
    }
    boolean isAlone = ProcFile.field(status, "Threads").orElse("1").equals("1");
    return state.startsWith("Z") && isAlone || state.startsWith("X");
  }
}
