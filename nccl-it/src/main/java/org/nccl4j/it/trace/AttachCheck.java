package org.nccl4j.it.trace;

import java.nio.file.Files;
import java.nio.file.Path;
import org.nccl4j.device.os.ProcFile;

/**
 * Finds out without a signal whether a process has a JVM that takes commands. {@code jcmd} sends
 * SIGQUIT to a process that has no socket for them, and SIGQUIT ends a process without a JVM.
 */
final class AttachCheck {
  /** SIGQUIT in a mask of signals, see proc(5). */
  private static final long QUIT = 1 << 2;

  private static final Path PROC = Path.of("/proc");

  private AttachCheck() {}

  /**
   * True if the process has a JVM's socket for commands, or a handler of SIGQUIT, with which a JVM
   * opens that socket; also where the system has no /proc to tell.
   */
  static boolean takesCommands(long pid) {
    if (!Files.isDirectory(PROC)) {
      return true;
    }
    Path process = PROC.resolve(Long.toString(pid));
    Path status = process.resolve("status");
    String caught = ProcFile.field(status, "SigCgt").orElse("0");
    // A JVM in a container names its socket by its number there, which is the last one.
    String[] numbers = ProcFile.field(status, "NSpid").orElse(Long.toString(pid)).split("\\s+");
    String socket = "root/tmp/.java_pid" + numbers[numbers.length - 1];
    return (Long.parseUnsignedLong(caught, 16) & QUIT) != 0
        || Files.exists(process.resolve(socket));
  }
}
