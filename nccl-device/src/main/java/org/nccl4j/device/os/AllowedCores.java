package org.nccl4j.device.os;

import java.nio.file.Path;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;

/**
 * The cores that a rank may use. Launchers and containers bind ranks to some of a host's cores, or
 * limit how many they use at once.
 *
 * @param most cores that it may use at once, as the JVM counts them
 * @param list the cores that its thread may run on, such as 0-3,8; empty if they are not known
 * @param domain the part of the machine that all of these are in
 */
public record AllowedCores(int most, String list, CoreDomain domain) {
  private static final Path STATUS = Path.of("/proc/thread-self/status");

  /** Cores of a machine; more than any has. */
  private static final int MOST = 1 << 16;

  /**
   * Cores of a rank.
   *
   * @throws IllegalArgumentException if the list is not one of cores
   */
  public AllowedCores {
    parse(list);
  }

  /** Cores of a machine whose parts are not known. */
  public AllowedCores(int most, String list) {
    this(most, list, CoreDomain.NONE);
  }

  /** Those of the calling thread, which creates a rank's communicator. */
  public static AllowedCores ofThisThread() {
    return ofThisThread(CoreLayout.here());
  }

  /** The same on a machine of some layout. */
  public static AllowedCores ofThisThread(CoreLayout layout) {
    String list = ProcFile.field(STATUS, "Cpus_allowed_list").orElse("");
    return new AllowedCores(
        Runtime.getRuntime().availableProcessors(), list, layout.domain(parse(list)));
  }

  /** The same for a number of ranks, all bound as the calling thread is. */
  public static List<AllowedCores> ofThisThread(int ranks) {
    return Collections.nCopies(ranks, ofThisThread());
  }

  /**
   * The number of cores that ranks of one host have together. Those that are bound may have cores
   * of their own; a limit on the number may be one for all, so the least counts.
   */
  public static int together(List<AllowedCores> ranks) {
    BitSet all = new BitSet();
    int limit = Integer.MAX_VALUE;
    for (AllowedCores rank : ranks.stream().distinct().toList()) {
      BitSet own = rank.cores();
      all.or(own);
      if (own.isEmpty() || rank.most < own.cardinality()) {
        limit = Math.min(limit, rank.most);
      }
    }
    return all.isEmpty() ? limit : Math.min(limit, all.cardinality());
  }

  /** The cores of the list. */
  public BitSet cores() {
    return parse(list);
  }

  /**
   * The cores of a list as the kernel writes it, such as 0-3,8.
   *
   * @throws IllegalArgumentException if it is not one
   */
  public static BitSet parse(String list) {
    BitSet cores = new BitSet();
    for (String range : list.isBlank() ? new String[0] : list.strip().split(",")) {
      int dash = range.indexOf('-');
      int first = Integer.parseInt(dash < 0 ? range : range.substring(0, dash));
      int last = dash < 0 ? first : Integer.parseInt(range.substring(dash + 1));
      if (first < 0 || last < first || last >= MOST) {
        throw new IllegalArgumentException("not a list of cores: " + list);
      }
      cores.set(first, last + 1);
    }
    return cores;
  }
}
