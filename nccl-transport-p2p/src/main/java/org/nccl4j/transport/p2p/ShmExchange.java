package org.nccl4j.transport.p2p;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.wire.FdExchange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.SharedSegment;

/**
 * Arenas of several processes: each rank passes the file descriptor of its own to each peer once,
 * when their first connector is made. The socket for it exists only while peers are missing.
 */
final class ShmExchange implements ArenaExchange {
  private final int rank;
  private final long bytes;
  private final byte[] secret;
  private final SegmentSource source;
  private SharedSegment own;
  private FdExchange descriptors;
  private final Map<Integer, MappedRegion> arenas = new HashMap<>();
  private final Set<Integer> posted = new HashSet<>();

  /** Peers that were told the mailbox's path and with which not everything is exchanged. */
  private final Set<Integer> pending = new HashSet<>();

  ShmExchange(int rank, long bytes, byte[] secret, SegmentSource source) {
    this.rank = rank;
    this.bytes = bytes;
    this.secret = secret;
    this.source = source;
  }

  @Override
  public long own() {
    if (own == null) {
      own = source.create(bytes);
      own.preferOwnNode(); // this rank polls it, and others write to it first
    }
    return own.address();
  }

  @Override
  public void reserve(long offset, long length) {
    own.reserve(offset, length);
  }

  @Override
  public String address(PeerInfo peer) {
    if (isMet(peer.rank())) {
      return "";
    }
    if (descriptors == null) {
      descriptors = FdExchange.open(secret);
    }
    if (pending.add(peer.rank())) {
      descriptors.expect(peer.rank());
    }
    return descriptors.path();
  }

  @Override
  public OptionalLong meet(PeerInfo peer, String address) {
    int other = peer.rank();
    if (!isMet(other)) {
      if (!posted.contains(other) && descriptors.give(address, rank, own.fd())) {
        posted.add(other);
      }
      descriptors.take(other).ifPresent(received -> attach(other, received.fd()));
    }
    if (!isMet(other)) {
      return OptionalLong.empty();
    }
    pending.remove(other);
    if (pending.isEmpty()) {
      closeDescriptors();
    }
    return OptionalLong.of(arenas.get(other).address());
  }

  private boolean isMet(int other) {
    return posted.contains(other) && arenas.containsKey(other);
  }

  private void attach(int sender, int fd) {
    try {
      arenas.put(sender, SharedSegment.attach(fd, bytes));
    } catch (SystemErrorException e) {
      throw new SystemErrorException(
          ErrorId.SHARED_MEMORY,
          "the shared memory of rank %d cannot be used: %s".formatted(sender, e.problem()),
          e.remedy(),
          e);
    }
  }

  @Override
  public String missing(PeerInfo peer) {
    int other = peer.rank();
    String inbound =
        arenas.containsKey(other)
            ? "rank %d's shared memory has arrived".formatted(other)
            : "rank %d's shared memory has not arrived at %s"
                .formatted(other, descriptors == null ? "this rank" : descriptors.path());
    String outbound = posted.contains(other) ? "has been sent" : "has not been sent";
    return "%s, this rank's %s".formatted(inbound, outbound);
  }

  private void closeDescriptors() {
    if (descriptors != null) {
      descriptors.close();
      descriptors = null;
    }
  }

  @Override
  public void close() {
    closeDescriptors();
    arenas.values().forEach(MappedRegion::close);
    arenas.clear();
    if (own != null) {
      own.close();
      own = null;
    }
  }
}
