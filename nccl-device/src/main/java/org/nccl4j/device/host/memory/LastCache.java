package org.nccl4j.device.host.memory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The processor's last cache, which its cores share. */
public final class LastCache {
  private static final Path CACHES = Path.of("/sys/devices/system/cpu/cpu0/cache");

  /** Level from which on cores share a cache. */
  private static final int SHARED_LEVEL = 3;

  /** Its bytes; {@link Long#MAX_VALUE} if they are not known. */
  public static final long BYTES = bytes(CACHES);

  private LastCache() {}

  static long bytes(Path caches) {
    long bytes = Long.MAX_VALUE;
    int last = SHARED_LEVEL - 1;
    try {
      for (int index = 0; Files.exists(caches.resolve("index" + index)); index++) {
        Path cache = caches.resolve("index" + index);
        int level = Integer.parseInt(Files.readString(cache.resolve("level")).trim());
        if (level > last) {
          last = level;
          bytes = kibibytes(Files.readString(cache.resolve("size")).trim()) << 10;
        }
      }
      return bytes;
    } catch (IOException | NumberFormatException e) {
      return Long.MAX_VALUE;
    }
  }

  private static long kibibytes(String size) {
    String number = size.substring(0, Math.max(0, size.length() - 1));
    return Long.parseLong(number) * (size.endsWith("M") ? 1024 : 1);
  }
}
