package org.nccl4j.device.host.memory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.nccl4j.device.os.AllowedCores;

/**
 * The processor's last caches. Each is shared by some of the cores: on many processors by those of
 * a part of the socket alone.
 */
final class LastCache {
  /** Level from which on cores share a cache. */
  private static final int SHARED_LEVEL = 3;

  private static final List<LastCache> ALL = find(Path.of("/sys/devices/system/cpu"));

  private final BitSet cores;
  private final long bytes;

  private LastCache(BitSet cores, long bytes) {
    this.cores = cores;
    this.bytes = bytes;
  }

  /**
   * The bytes of the last cache that a rank has for itself, where all ranks of the machine use
   * equally much.
   *
   * @param local cores of the ranks, this rank's first
   * @return {@link Long#MAX_VALUE} if they are not known
   */
  static long share(List<AllowedCores> local) {
    return share(ALL, local);
  }

  /**
   * The same of a machine's caches. A rank that may run on cores of several caches counts as a part
   * of a rank on each.
   */
  static long share(List<LastCache> caches, List<AllowedCores> local) {
    double[] ranks = new double[caches.size()];
    for (AllowedCores rank : local) {
      double[] parts = parts(caches, rank);
      for (int c = 0; c < ranks.length; c++) {
        ranks[c] += parts[c];
      }
    }
    double[] own = parts(caches, local.get(0));
    double bytes = 0;
    for (int c = 0; c < ranks.length; c++) {
      bytes += own[c] * caches.get(c).bytes / Math.max(1, ranks[c]);
    }
    return bytes == 0 ? Long.MAX_VALUE : Math.max(1, (long) bytes);
  }

  /** The part of a rank's cores that each cache has; of all cores if they are not known. */
  private static double[] parts(List<LastCache> caches, AllowedCores rank) {
    BitSet allowed = rank.cores();
    double[] counts = new double[caches.size()];
    double sum = 0;
    for (int c = 0; c < counts.length; c++) {
      BitSet cores = (BitSet) caches.get(c).cores.clone();
      if (!allowed.isEmpty()) {
        cores.and(allowed);
      }
      counts[c] = cores.cardinality();
      sum += counts[c];
    }
    for (int c = 0; c < counts.length; c++) {
      counts[c] /= Math.max(1, sum);
    }
    return counts;
  }

  /**
   * A machine's last caches; none if they are not known.
   *
   * @param processors the folder with a folder for each core, cpu0 and so on
   */
  static List<LastCache> find(Path processors) {
    List<LastCache> found = new ArrayList<>();
    try {
      BitSet online = AllowedCores.parse(Files.readString(processors.resolve("online")));
      BitSet seen = new BitSet();
      for (int core = online.nextSetBit(0); core >= 0; core = online.nextSetBit(core + 1)) {
        LastCache last = seen.get(core) ? null : of(processors.resolve("cpu" + core));
        if (last != null) {
          last.cores.set(core);
          seen.or(last.cores);
          found.add(last);
        }
      }
      return found;
    } catch (IOException | IllegalArgumentException e) {
      return List.of();
    }
  }

  /** A core's last cache; null if it shares none. */
  private static LastCache of(Path core) throws IOException {
    LastCache found = null;
    int last = SHARED_LEVEL - 1;
    Path caches = core.resolve("cache");
    for (int index = 0; Files.exists(caches.resolve("index" + index)); index++) {
      Path cache = caches.resolve("index" + index);
      int level = Integer.parseInt(text(cache, "level"));
      if (level > last) {
        last = level;
        found =
            new LastCache(
                AllowedCores.parse(text(cache, "shared_cpu_list")),
                kibibytes(text(cache, "size")) << 10);
      }
    }
    return found;
  }

  private static String text(Path cache, String file) throws IOException {
    return Files.readString(cache.resolve(file)).trim();
  }

  private static long kibibytes(String size) {
    String number = size.substring(0, Math.max(0, size.length() - 1));
    return Long.parseLong(number) * (size.endsWith("M") ? 1024 : 1);
  }
}
