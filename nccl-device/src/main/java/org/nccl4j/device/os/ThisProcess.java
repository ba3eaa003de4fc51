package org.nccl4j.device.os;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/**
 * This process's number and its host's name, as the kernel has them in /proc. The JDK's class of
 * processes starts threads at its first use, and takes some milliseconds. Any thread.
 */
public final class ThisProcess {
  private static final String STATUS = "/proc/self/status";
  private static final String HOST_NAME = "/proc/sys/kernel/hostname";

  /** The process's number in each namespace from that of /proc to its own, which is the last. */
  private static final String NUMBERS = "\nNSpid:";

  private static final long PID = findPid();

  private ThisProcess() {}

  /** Its number, as getpid() gives it. */
  public static long pid() {
    return PID;
  }

  /** Its host's name; empty if the kernel does not tell it. */
  public static String hostName() {
    return read(HOST_NAME).trim();
  }

  private static long findPid() {
    long number = pidOf(read(STATUS));
    return number > 0 ? number : ProcessHandle.current().pid();
  }

  /**
   * The number in the text of a process's status; 0 if it has none, as those of kernels before 4.1.
   */
  static long pidOf(String status) {
    int line = status.indexOf(NUMBERS);
    int end = line < 0 ? -1 : status.indexOf('\n', line + 1);
    int at = end;
    while (at > 0 && Character.isDigit(status.charAt(at - 1))) {
      at--;
    }
    return at == end ? 0 : Long.parseLong(status, at, end, 10);
  }

  private static String read(String file) {
    try (InputStream in = new FileInputStream(file)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      return "";
    }
  }
}
