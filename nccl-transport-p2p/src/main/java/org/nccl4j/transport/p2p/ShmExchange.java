package org.nccl4j.transport.p2p;

import java.nio.ByteBuffer;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.FdMailbox;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.ReceivedFd;
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
  private FdMailbox mailbox;
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
    if (mailbox == null) {
      mailbox = FdMailbox.open(secret);
    }
    pending.add(peer.rank());
    return mailbox.path().toString();
  }

  @Override
  public OptionalLong meet(PeerInfo peer, String address) {
    int other = peer.rank();
    if (!isMet(other)) {
      if (!posted.contains(other) && mailbox.post(own.fd(), path(other, address), key(rank))) {
        posted.add(other);
      }
      receive();
    }
    if (!isMet(other)) {
      return OptionalLong.empty();
    }
    pending.remove(other);
    if (pending.isEmpty()) {
      closeMailbox();
    }
    return OptionalLong.of(arenas.get(other).address());
  }

  private boolean isMet(int other) {
    return posted.contains(other) && arenas.containsKey(other);
  }

  private static Path path(int other, String address) {
    try {
      return Path.of(address);
    } catch (InvalidPathException e) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d names a socket that is no path: %s".formatted(other, e.getMessage()),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  private void receive() {
    Optional<ReceivedFd> received = mailbox.poll();
    while (received.isPresent()) {
      accept(received.get());
      received = mailbox.poll();
    }
  }

  private void accept(ReceivedFd received) {
    int sender = rank(received.key());
    MappedRegion arena;
    try {
      arena = SharedSegment.attach(received.fd(), bytes);
    } catch (SystemErrorException e) {
      throw new SystemErrorException(
          ErrorId.SHARED_MEMORY,
          "the shared memory of rank %d cannot be used: %s".formatted(sender, e.problem()),
          e.remedy(),
          e);
    }
    if (!pending.contains(sender) || arenas.putIfAbsent(sender, arena) != null) {
      arena.close();
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "shared memory came from rank %d that was not asked for, or came twice".formatted(sender),
          "run the same version of nccl4j on all ranks, and no two ranks with the same number");
    }
  }

  private static byte[] key(int rank) {
    return ByteBuffer.allocate(Integer.BYTES).putInt(rank).array();
  }

  private static int rank(byte[] key) {
    return key.length == Integer.BYTES ? ByteBuffer.wrap(key).getInt() : -1;
  }

  @Override
  public String missing(PeerInfo peer) {
    int other = peer.rank();
    String inbound =
        arenas.containsKey(other)
            ? "rank %d's shared memory is here".formatted(other)
            : "rank %d's shared memory has not come to %s"
                .formatted(other, mailbox == null ? "this rank" : mailbox.path());
    String outbound = posted.contains(other) ? "has been sent" : "has not been sent";
    return "%s, this rank's %s".formatted(inbound, outbound);
  }

  private void closeMailbox() {
    if (mailbox != null) {
      mailbox.close();
      mailbox = null;
    }
  }

  @Override
  public void close() {
    closeMailbox();
    arenas.values().forEach(MappedRegion::close);
    arenas.clear();
    if (own != null) {
      own.close();
      own = null;
    }
  }
}
