package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.spi.PeerInfo;

/**
 * The ranks that can load from and store to each other's memory: those of one machine. All teams of
 * a communicator have the same size, the largest that divides every machine's run of ranks, so that
 * all ranks lay out their flat ranges alike.
 *
 * @param first the lowest rank
 * @param size how many, in order of rank
 * @param place which of them this rank is
 */
public record Team(int first, int size, int place) {
  /** The team of a rank. */
  public static Team of(List<PeerInfo> peers, int rank) {
    int size = 0;
    int run = 1;
    for (int r = 1; r < peers.size(); r++) {
      if (reach(peers.get(r - 1), peers.get(r))) {
        run++;
      } else {
        size = gcd(size, run);
        run = 1;
      }
    }
    size = gcd(size, run);
    return new Team(rank - rank % size, size, rank % size);
  }

  private static boolean reach(PeerInfo a, PeerInfo b) {
    return a.hostId().equals(b.hostId())
        && a.userId() == b.userId()
        && a.deviceKind() == b.deviceKind()
        && (a.processId().equals(b.processId()) || a.ipcNamespace().equals(b.ipcNamespace()));
  }

  private static int gcd(int a, int b) {
    return a == 0 ? b : gcd(b % a, a);
  }

  /** Whether a rank is one of them. */
  public boolean has(int rank) {
    return rank >= first && rank < first + size;
  }

  /** Their ranks. */
  public List<Integer> ranks() {
    return new ArrayList<>(IntStream.range(first, first + size).boxed().toList());
  }
}
