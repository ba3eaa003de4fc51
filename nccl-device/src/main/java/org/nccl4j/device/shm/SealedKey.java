package org.nccl4j.device.shm;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.nccl4j.device.InternalErrorException;

/** The payload of a mailbox's messages; see the package's description. */
final class SealedKey {
  static final int MAX_KEY = 64;

  private static final int MAGIC = 0x6e346a66;
  private static final int VERSION = 1;
  private static final int PREFIX = 8;
  private static final int HEADER = PREFIX + 32;

  private SealedKey() {}

  static byte[] seal(byte[] secret, Path destination, byte[] key) {
    ByteBuffer payload = ByteBuffer.allocate(HEADER + key.length);
    payload.putInt(MAGIC).putInt(VERSION).put(mac(secret, destination, key)).put(key);
    return payload.array();
  }

  static boolean isSealed(byte[] secret, Path destination, byte[] payload) {
    return payload.length >= HEADER
        && payload.length <= HEADER + MAX_KEY
        && ByteBuffer.wrap(payload).getInt(0) == MAGIC
        && ByteBuffer.wrap(payload).getInt(4) == VERSION
        && MessageDigest.isEqual(
            mac(secret, destination, key(payload)), Arrays.copyOfRange(payload, PREFIX, HEADER));
  }

  static byte[] key(byte[] payload) {
    return Arrays.copyOfRange(payload, HEADER, payload.length);
  }

  private static byte[] mac(byte[] secret, Path destination, byte[] key) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update(ByteBuffer.allocate(PREFIX).putInt(MAGIC).putInt(VERSION).array());
      mac.update(destination.getFileName().toString().getBytes(StandardCharsets.UTF_8));
      mac.update(key);
      return mac.doFinal();
    } catch (GeneralSecurityException e) {
      throw new InternalErrorException(
          "HMAC-SHA256 is missing from this JDK: " + e, "use a JDK with the module java.base", e);
    }
  }
}
