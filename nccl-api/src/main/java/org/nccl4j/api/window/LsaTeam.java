package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * The ranks that can load from and store to each other's memory: those of one machine, or of one
 * clique of multi-node NVLink. All teams of a communicator have the same size, the largest that
 * divides every machine's run of ranks, so that all ranks have the same layout of their flat
 * ranges. On GPUs the size is limited by the kernels' flags.
 *
 * @param first the lowest rank
 * @param size number of ranks, in order of rank
 * @param place of this rank among them
 */
public record LsaTeam(int first, int size, int place) {
  /** The team of a rank. */
  public static LsaTeam of(List<PeerInfo> peers, int rank) {
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
    if (peers.get(0).deviceKind() == Device.Kind.CUDA) {
      size = part(size);
    }
    return new LsaTeam(rank - rank % size, size, rank % size);
  }

  /** The largest equal part that kernels can work with: of 72 ranks 24. */
  private static int part(int size) {
    int part = Math.min(size, CudaDevice.TEAM_RANKS);
    while (size % part != 0) {
      part--;
    }
    return part;
  }

  private static boolean reach(PeerInfo a, PeerInfo b) {
    return a.node().equals(b.node()) && a.deviceKind() == b.deviceKind();
  }

  /** True if its ranks need fabric handles: they cannot all send each other descriptors. */
  boolean isApart(List<PeerInfo> peers) {
    PeerInfo self = peers.get(first);
    return ranks().stream().map(peers::get).anyMatch(peer -> !self.sharesHost(peer));
  }

  private static int gcd(int a, int b) {
    return a == 0 ? b : gcd(b % a, a);
  }

  /** True if a rank is one of them. */
  public boolean has(int rank) {
    return rank >= first && rank < first + size;
  }

  /** Their ranks. */
  public List<Integer> ranks() {
    return new ArrayList<>(IntStream.range(first, first + size).boxed().toList());
  }
}
