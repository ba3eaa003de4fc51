package org.nccl4j.device.os;

import java.nio.file.Files;
import java.nio.file.Path;

/** Other processes of this host, as the kernel has them in /proc. Any thread. */
public final class OtherProcess {
  private static final Path PROCESSES = Path.of("/proc");

  private OtherProcess() {}

  /** True if a process has ended, though its parent may not have asked for its status yet. */
  public static boolean hasEnded(long pid) {
    return hasEnded(PROCESSES, pid);
  }

  static boolean hasEnded(Path processes, long pid) {
    Path process = processes.resolve(Long.toString(pid));
    String state = ProcFile.field(process.resolve("status"), "State").orElse("");
    return state.isEmpty()
        ? Files.notExists(process)
        : state.startsWith("Z") || state.startsWith("X");
  }
}
