package org.nccl4j.device.os;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.security.SecureRandom;

/**
 * Random numbers for secrets, from the kernel's generator. {@link SecureRandom} mixes the same
 * numbers with its own, which takes 10 to 20 ms at its first use. Any thread.
 */
public final class KernelRandom {
  private static final String SOURCE = "/dev/urandom";

  private KernelRandom() {}

  /** Returns new random bytes. */
  public static byte[] bytes(int count) {
    byte[] bytes = new byte[count];
    if (!fill(bytes)) {
      // A process without that file, in a chroot for example.
      new SecureRandom().nextBytes(bytes);
    }
    return bytes;
  }

  /** Returns a new random number, any of all 64-bit ones. */
  public static long number() {
    return ByteBuffer.wrap(bytes(Long.BYTES)).getLong();
  }

  private static boolean fill(byte[] bytes) {
    try (InputStream source = new FileInputStream(SOURCE)) {
      return source.readNBytes(bytes, 0, bytes.length) == bytes.length;
    } catch (IOException e) {
      return false;
    }
  }
}
