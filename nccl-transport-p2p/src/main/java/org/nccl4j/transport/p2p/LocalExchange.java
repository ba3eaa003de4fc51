package org.nccl4j.transport.p2p;

import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;

/** Arenas of one process: their address is valid for all its ranks. */
final class LocalExchange implements ArenaExchange {
  private final long bytes;
  private final Map<Integer, LocalArena> peers = new HashMap<>();
  private LocalArena own;

  LocalExchange(long bytes) {
    this.bytes = bytes;
  }

  @Override
  public long own() {
    if (own == null) {
      own = LocalArena.create(bytes);
    }
    return own.address();
  }

  @Override
  public void reserve(long offset, long length) {}

  @Override
  public String address(PeerInfo peer) {
    return Long.toString(own.number());
  }

  @Override
  public OptionalLong meet(PeerInfo peer, String address) {
    LocalArena arena = peers.computeIfAbsent(peer.rank(), rank -> find(rank, address));
    return OptionalLong.of(arena.address());
  }

  private LocalArena find(int rank, String address) {
    LocalArena arena =
        address.matches("[0-9]{1,18}") ? LocalArena.find(Long.parseLong(address)) : null;
    if (arena == null) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "rank %d's arena %s is not in this process: it has closed its communicator, or belongs to"
                  .formatted(rank, address)
              + " another class loader",
          "look for an earlier error of that rank; between class loaders set NCCL_P2P_DISABLE=1");
    }
    if (arena.bytes() != bytes) {
      arena.release();
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d's arena has %d bytes, this rank's %d".formatted(rank, arena.bytes(), bytes),
          "use the same communicator on both ranks");
    }
    return arena;
  }

  @Override
  public String missing(PeerInfo peer) {
    return "its handle has not come";
  }

  @Override
  public void close() {
    peers.values().forEach(LocalArena::release);
    peers.clear();
    if (own != null) {
      own.release();
      own = null;
    }
  }
}
