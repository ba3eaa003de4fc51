package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.OneSidedWork;

/** The signals that one wait is for, which many calls may share. Immutable. */
final class AwaitedSignals {
  private final Integer[] peers;
  private final int[] counts;
  private final OneSidedWork.Wait work;
  private final Set<Integer> outside;
  private final long hash;

  private AwaitedSignals(
      Integer[] peers, int[] counts, OneSidedWork.Wait work, Set<Integer> outside) {
    this.peers = peers;
    this.counts = counts;
    this.work = work;
    this.outside = outside;
    this.hash = 31L * Arrays.hashCode(peers) + Arrays.hashCode(counts);
  }

  /** Signals of ranks, at least one of each, by rank. */
  static AwaitedSignals of(Map<Integer, Integer> signals, LsaTeam team) {
    Integer[] peers = signals.keySet().toArray(Integer[]::new);
    int[] counts = new int[peers.length];
    List<OneSidedWork.Awaited> near = new ArrayList<>();
    List<OneSidedWork.RemoteAwaited> far = new ArrayList<>();
    Set<Integer> outside = new TreeSet<>();
    for (int each = 0; each < peers.length; each++) {
      counts[each] = signals.get(peers[each]);
      if (team.has(peers[each])) {
        near.add(new OneSidedWork.Awaited(peers[each] - team.first(), counts[each]));
      } else {
        far.add(new OneSidedWork.RemoteAwaited(peers[each], counts[each]));
        outside.add(peers[each]);
      }
    }
    return new AwaitedSignals(
        peers,
        counts,
        new OneSidedWork.Wait(List.copyOf(near), List.copyOf(far)),
        Set.copyOf(outside));
  }

  /** True if it is for the same signals as a map. A map's iterator would be an object. */
  @HotPath
  boolean isFor(Map<Integer, Integer> signals) {
    if (signals.size() != peers.length) {
      return false;
    }
    for (int each = 0; each < peers.length; each++) {
      Integer count = signals.get(peers[each]);
      if (count == null || count != counts[each]) {
        return false;
      }
    }
    return true;
  }

  @HotPath
  long hash() {
    return hash;
  }

  @HotPath
  int size() {
    return peers.length;
  }

  /** A rank whose signals are awaited. */
  @HotPath
  int peer(int each) {
    return peers[each];
  }

  OneSidedWork.Wait work() {
    return work;
  }

  /** The ranks outside the team. */
  Set<Integer> outside() {
    return outside;
  }
}
