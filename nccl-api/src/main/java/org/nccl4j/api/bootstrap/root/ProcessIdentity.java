package org.nccl4j.api.bootstrap.root;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HexFormat;

/**
 * The identity of a process of a host, for messages and for comparisons.
 *
 * @param host the host's name
 * @param pid the process's number there
 * @param token 16 random bytes in hexadecimal, made once in each JVM
 * @param version of the library, which must be the same for all ranks
 */
public record ProcessIdentity(String host, long pid, String token, String version) {
  /** Not read from the module, which has none on a class path; a test keeps it right. */
  public static final String LIBRARY = "0.1.0";

  /** Changes when the messages between ranks do. */
  private static final int PROTOCOL = 4;

  private static final SecureRandom RANDOM = new SecureRandom();

  private static final ProcessIdentity OURS =
      new ProcessIdentity(
          hostName(),
          ProcessHandle.current().pid(),
          HexFormat.of().formatHex(randomBytes(16)),
          LIBRARY + "/" + PROTOCOL);

  /** This process. */
  public static ProcessIdentity ofThisProcess() {
    return OURS;
  }

  public ProcessIdentity withVersion(String other) {
    return new ProcessIdentity(host, pid, token, other);
  }

  /** "host h, process 42". */
  public String text() {
    return "host " + host + ", process " + pid;
  }

  public static byte[] randomBytes(int count) {
    byte[] bytes = new byte[count];
    RANDOM.nextBytes(bytes);
    return bytes;
  }

  private static String hostName() {
    Path kernel = Path.of("/proc/sys/kernel/hostname");
    try {
      String name = Files.readString(kernel).trim();
      if (!name.isEmpty()) {
        return shortened(name);
      }
    } catch (IOException e) {
      return shortened(resolvedName());
    }
    return shortened(resolvedName());
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
