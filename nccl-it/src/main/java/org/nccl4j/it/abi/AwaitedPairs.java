package org.nccl4j.it.abi;

import java.util.HashMap;
import java.util.Map;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeMemory;

/** The descriptors of a wait as C has them, and their sums by peer. Immutable. */
final class AwaitedPairs {
  private static final int PAIR_BYTES = 2 * Integer.BYTES;

  private final long[] pairs;
  private final Map<Integer, Integer> byPeer;

  private AwaitedPairs(long[] pairs, Map<Integer, Integer> byPeer) {
    this.pairs = pairs;
    this.byPeer = byPeer;
  }

  /**
   * Reads descriptors.
   *
   * @param address of the number and the peer of each, which are ints
   */
  static AwaitedPairs read(long address, int n) {
    long[] pairs = new long[n];
    Map<Integer, Integer> sums = new HashMap<>();
    for (int at = 0; at < n; at++) {
      pairs[at] = NativeMemory.getLong(address + (long) at * PAIR_BYTES);
      add(sums, at, NativeMemory.getInt(address + (long) at * PAIR_BYTES), peer(address, at));
    }
    return new AwaitedPairs(pairs, sums);
  }

  private static int peer(long address, int at) {
    return NativeMemory.getInt(address + (long) at * PAIR_BYTES + Integer.BYTES);
  }

  private static void add(Map<Integer, Integer> sums, int at, int signals, int peer) {
    long sum = (long) sums.getOrDefault(peer, 0) + signals;
    if (signals < 1 || sum > Integer.MAX_VALUE) {
      throw Wrong.argument(
          "descriptor %d awaits %d signals of rank %d".formatted(at, signals, peer),
          "pass an opCnt of 1 or more, and at most %d of a rank in all"
              .formatted(Integer.MAX_VALUE));
    }
    sums.put(peer, (int) sum);
  }

  /** True if these are the descriptors at an address. */
  @HotPath
  boolean areAt(long address, int n) {
    if (n != pairs.length) {
      return false;
    }
    for (int at = 0; at < n; at++) {
      if (NativeMemory.getLong(address + (long) at * PAIR_BYTES) != pairs[at]) {
        return false;
      }
    }
    return true;
  }

  /** Signals by peer, of which several descriptors may be. */
  @HotPath
  Map<Integer, Integer> byPeer() {
    return byPeer;
  }
}
