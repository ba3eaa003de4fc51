package org.nccl4j.transport.p2p;

import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.shm.MappedRegion;

/** Arenas of one process: their address is valid for all its ranks. */
final class LocalExchange implements ArenaExchange {
  private static final LocalArenas<MappedRegion> ARENAS = new LocalArenas<>(MappedRegion::close);

  private final long bytes;
  private final Map<Integer, LocalArenas<MappedRegion>.Arena> peers = new HashMap<>();
  private LocalArenas<MappedRegion>.Arena own;

  LocalExchange(long bytes) {
    this.bytes = bytes;
  }

  @Override
  public long own() {
    if (own == null) {
      MappedRegion region = MappedRegion.anonymous(bytes);
      region.preferOwnNode(); // this rank polls it, and others write to it first
      own = ARENAS.create(region);
    }
    return own.memory().address();
  }

  @Override
  public void reserve(long offset, long length) {}

  @Override
  public String address(PeerInfo peer) {
    return Long.toString(own.number());
  }

  @Override
  public OptionalLong meet(PeerInfo peer, String address) {
    return OptionalLong.of(
        peers.computeIfAbsent(peer.rank(), rank -> find(rank, address)).memory().address());
  }

  private LocalArenas<MappedRegion>.Arena find(int rank, String address) {
    LocalArenas<MappedRegion>.Arena arena = ARENAS.find(address);
    if (arena == null) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "rank %d's arena %s is not in this process: it has closed its communicator, or belongs to"
                  .formatted(rank, address)
              + " another class loader",
          "look for an earlier error of that rank; between class loaders set NCCL_P2P_DISABLE=1");
    }
    if (arena.memory().bytes() != bytes) {
      arena.release();
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d's arena has %d bytes, this rank's %d"
              .formatted(rank, arena.memory().bytes(), bytes),
          "use the same communicator on both ranks");
    }
    return arena;
  }

  @Override
  public String missing(PeerInfo peer) {
    return "its handle has not arrived";
  }

  @Override
  public void close() {
    peers.values().forEach(LocalArenas.Arena::release);
    peers.clear();
    if (own != null) {
      own.release();
      own = null;
    }
  }
}
