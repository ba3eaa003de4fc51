package org.nccl4j.device.os;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The NUMA nodes and last caches of a machine's cores, as the kernel's files tell. What they do not
 * tell is not known, and no error. Any thread.
 */
public final class CoreLayout {
  /** Level from which on cores share a cache. */
  private static final int SHARED_LEVEL = 3;

  private static volatile CoreLayout here = new CoreLayout(Path.of("/sys/devices/system"));

  private final Path processors;
  private final Path numa;

  /** Those that were asked for: a process has few, and reading the files takes long. */
  private final Map<BitSet, CoreDomain> domains = new ConcurrentHashMap<>();

  /** Null before the first use. */
  private volatile List<Cache> lastCaches;

  /** Null before the first use. */
  private volatile Map<Integer, BitSet> nodes;

  /**
   * A cache of the highest level that its cores have.
   *
   * @param cores that share it
   * @param bytes its size; 0 if the kernel does not tell it
   */
  public record Cache(BitSet cores, long bytes) {}

  /**
   * The layout that a folder describes.
   *
   * @param system the folder with the folders cpu and node
   */
  public CoreLayout(Path system) {
    this.processors = system.resolve("cpu");
    this.numa = system.resolve("node");
  }

  /** That of this machine. */
  public static CoreLayout here() {
    return here;
  }

  /** Takes another for that of this machine, in tests. */
  static void pretend(CoreLayout other) {
    here = other;
  }

  /** The domain of some cores; {@link CoreDomain#NONE} of all that are online. */
  public CoreDomain domain(BitSet cores) {
    return domains.computeIfAbsent((BitSet) cores.clone(), this::findDomain);
  }

  private CoreDomain findDomain(BitSet cores) {
    try {
      BitSet online = parse(processors.resolve("online"));
      BitSet some = (BitSet) cores.clone();
      some.and(online);
      return some.isEmpty() || some.equals(online)
          ? CoreDomain.NONE
          : new CoreDomain(nodeOf(some), cacheOf(some));
    } catch (IOException | IllegalArgumentException e) {
      return CoreDomain.NONE;
    }
  }

  /** True if the machine's cores are on several NUMA nodes. */
  public boolean hasNodes() {
    return nodes().size() > 1;
  }

  private int nodeOf(BitSet cores) {
    for (Map.Entry<Integer, BitSet> node : nodes().entrySet()) {
      if (holds(node.getValue(), cores)) {
        return node.getKey();
      }
    }
    return CoreDomain.NONE.node();
  }

  private int cacheOf(BitSet cores) {
    Cache last;
    try {
      last = lastCache(cores.nextSetBit(0));
    } catch (IOException | IllegalArgumentException e) {
      return CoreDomain.NONE.cache();
    }
    return last != null && holds(last.cores, cores)
        ? last.cores.nextSetBit(0)
        : CoreDomain.NONE.cache();
  }

  private static boolean holds(BitSet all, BitSet some) {
    BitSet others = (BitSet) some.clone();
    others.andNot(all);
    return others.isEmpty();
  }

  /** The cores of each NUMA node that has some, by its number. */
  private Map<Integer, BitSet> nodes() {
    Map<Integer, BitSet> found = nodes;
    if (found == null) {
      found = findNodes();
      nodes = found;
    }
    return found;
  }

  private Map<Integer, BitSet> findNodes() {
    Map<Integer, BitSet> found = new TreeMap<>();
    try {
      BitSet online = parse(numa.resolve("online"));
      for (int node = online.nextSetBit(0); node >= 0; node = online.nextSetBit(node + 1)) {
        BitSet cores = parse(numa.resolve("node" + node).resolve("cpulist"));
        if (!cores.isEmpty()) {
          found.put(node, cores);
        }
      }
      return found;
    } catch (IOException | IllegalArgumentException e) {
      return Map.of();
    }
  }

  /** All last caches that cores share; none if one of them is not known. */
  public List<Cache> lastCaches() {
    List<Cache> found = lastCaches;
    if (found == null) {
      found = findLastCaches();
      lastCaches = found;
    }
    return found;
  }

  private List<Cache> findLastCaches() {
    List<Cache> found = new ArrayList<>();
    try {
      BitSet online = parse(processors.resolve("online"));
      BitSet seen = new BitSet();
      for (int core = online.nextSetBit(0); core >= 0; core = online.nextSetBit(core + 1)) {
        Cache last = seen.get(core) ? null : lastCache(core);
        if (last != null) {
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
  private Cache lastCache(int core) throws IOException {
    Cache found = null;
    int last = SHARED_LEVEL - 1;
    Path caches = processors.resolve("cpu" + core).resolve("cache");
    for (int index = 0; Files.exists(caches.resolve("index" + index)); index++) {
      Path cache = caches.resolve("index" + index);
      int level = Integer.parseInt(text(cache.resolve("level")));
      if (level > last) {
        last = level;
        BitSet cores = parse(cache.resolve("shared_cpu_list"));
        cores.set(core);
        Path size = cache.resolve("size"); // not there if the firmware does not tell it
        found = new Cache(cores, Files.exists(size) ? kibibytes(text(size)) << 10 : 0);
      }
    }
    return found;
  }

  private static BitSet parse(Path list) throws IOException {
    return AllowedCores.parse(text(list));
  }

  private static String text(Path file) throws IOException {
    return Files.readString(file).trim();
  }

  private static long kibibytes(String size) {
    String number = size.substring(0, Math.max(0, size.length() - 1));
    return Long.parseLong(number) * (size.endsWith("M") ? 1024 : 1);
  }
}
