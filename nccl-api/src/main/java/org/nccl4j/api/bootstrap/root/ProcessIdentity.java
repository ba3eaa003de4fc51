package org.nccl4j.api.bootstrap.root;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.HexFormat;
import org.nccl4j.device.os.KernelRandom;
import org.nccl4j.device.os.ThisProcess;

/**
 * The identity of a process of a host, for messages and for comparisons.
 *
 * @param host the host's name
 * @param pid the process's number there
 * @param token 16 random bytes in hexadecimal, made once in each JVM
 * @param version of the library, which must be the same for all ranks
 */
public record ProcessIdentity(String host, long pid, String token, String version) {
  /**
   * The version of this library, which all ranks must have. Not read from the module, which has
   * none on a class path; a test keeps it right.
   */
  public static final String LIBRARY = "0.1.0-SNAPSHOT";

  /** Changes when the messages between ranks do. */
  private static final int PROTOCOL = 5;

  private static final ProcessIdentity OURS =
      new ProcessIdentity(
          hostName(),
          ThisProcess.pid(),
          HexFormat.of().formatHex(KernelRandom.bytes(16)),
          LIBRARY + "/" + PROTOCOL);

  /** This process. */
  public static ProcessIdentity ofThisProcess() {
    return OURS;
  }

  /** "host h, process 42". */
  public String text() {
    return "host " + host + ", process " + pid;
  }

  private static String hostName() {
    String name = ThisProcess.hostName();
    return shortened(name.isEmpty() ? resolvedName() : name);
  }

  private static String resolvedName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }

  private static String shortened(String name) {
    return name.substring(0, Math.min(name.length(), 64));
  }
}
