package org.nccl4j.transport.p2p;

import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.PinnedRegion;
import org.nccl4j.device.support.CloseAll;

/** Arenas in the host's memory, pinned, so that kernels of this rank's GPU reach them. */
final class PinnedExchange implements ArenaExchange {
  private final ArenaExchange memory;
  private final CudaDevice device;
  private final long bytes;
  private final Map<Integer, PinnedRegion> peers = new HashMap<>();
  private PinnedRegion own;

  /**
   * Pins what another exchange gives.
   *
   * @param bytes of each arena
   */
  PinnedExchange(ArenaExchange memory, CudaDevice device, long bytes) {
    this.memory = memory;
    this.device = device;
    this.bytes = bytes;
  }

  @Override
  public long own() {
    if (own == null) {
      long host = memory.own();
      memory.reserve(
          0, bytes); // pinning takes all of it, and has no error of its own for too little
      own = PinnedRegion.of(device.gpu(), host, bytes);
    }
    return own.address();
  }

  @Override
  public void reserve(long offset, long length) {}

  @Override
  public String address(PeerInfo peer) {
    return memory.address(peer);
  }

  @Override
  public OptionalLong meet(PeerInfo peer, String address) {
    OptionalLong host = memory.meet(peer, address);
    return host.isEmpty()
        ? host
        : OptionalLong.of(
            peers
                .computeIfAbsent(
                    peer.rank(), rank -> PinnedRegion.of(device.gpu(), host.getAsLong(), bytes))
                .address());
  }

  @Override
  public String missing(PeerInfo peer) {
    return memory.missing(peer);
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    peers.values().forEach(region -> all.take(region::close));
    peers.clear();
    if (own != null) {
      all.take(own::close);
      own = null;
    }
    all.take(memory::close);
    all.end();
  }
}
