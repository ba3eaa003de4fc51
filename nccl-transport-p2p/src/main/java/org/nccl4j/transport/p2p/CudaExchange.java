package org.nccl4j.transport.p2p;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaShareableMemory;
import org.nccl4j.device.shm.FdMailbox;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.ReceivedFd;

/**
 * Arenas of GPUs: with a peer of this process by a number that is looked up, with one of another
 * process by a file descriptor that each passes the other once.
 */
final class CudaExchange implements ArenaExchange {
  private final PeerInfo self;
  private final CudaDevice device;
  private final long bytes;
  private final byte[] secret;
  private final Map<Integer, LocalCudaArena> found = new HashMap<>();
  private final Map<Integer, CudaShareableMemory> imported = new HashMap<>();
  private final Set<Integer> posted = new HashSet<>();
  private LocalCudaArena own;
  private FdMailbox mailbox;

  CudaExchange(TransportContext context, CudaDevice device, long bytes) {
    this.self = context.peers().get(context.rank());
    this.device = device;
    this.bytes = bytes;
    this.secret = context.secret();
  }

  @Override
  public long own() {
    if (own == null) {
      own = LocalCudaArena.create(device, bytes);
    }
    return own.memory().local().address();
  }

  @Override
  public void reserve(long offset, long length) {}

  private boolean isLocal(PeerInfo peer) {
    return peer.processId().equals(self.processId());
  }

  @Override
  public String address(PeerInfo peer) {
    if (isLocal(peer)) {
      return Long.toString(own.number());
    }
    if (mailbox == null) {
      mailbox = FdMailbox.open(secret);
    }
    return mailbox.path().toString();
  }

  @Override
  public OptionalLong meet(PeerInfo peer, String address) {
    int other = peer.rank();
    if (isLocal(peer)) {
      LocalCudaArena arena = found.computeIfAbsent(other, rank -> find(rank, address));
      return OptionalLong.of(arena.memory().accessFrom(device).address());
    }
    if (!posted.contains(other) && post(address)) {
      posted.add(other);
    }
    receive();
    CudaShareableMemory arena = imported.get(other);
    return arena == null || !posted.contains(other)
        ? OptionalLong.empty()
        : OptionalLong.of(arena.local().address());
  }

  private static LocalCudaArena find(int rank, String address) {
    LocalCudaArena arena =
        address.matches("[0-9]{1,18}") ? LocalCudaArena.find(Long.parseLong(address)) : null;
    if (arena == null) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "rank %d's arena %s is not in this process: it has closed its communicator"
              .formatted(rank, address),
          "look for an earlier error of that rank");
    }
    return arena;
  }

  private boolean post(String address) {
    try (OwnedFd descriptor = new OwnedFd(own.memory().exportFileDescriptor())) {
      byte[] key = ByteBuffer.allocate(Integer.BYTES).putInt(self.rank()).array();
      return mailbox.post(descriptor.value(), Path.of(address), key);
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
    try (OwnedFd descriptor = new OwnedFd(received.fd())) {
      int sender =
          received.key().length == Integer.BYTES ? ByteBuffer.wrap(received.key()).getInt() : -1;
      if (sender < 0 || imported.containsKey(sender)) {
        throw new RemoteException(
            "memory came from rank %d that was not asked for, or came twice".formatted(sender),
            "run the same version of nccl4j on all ranks, and no two ranks with the same number");
      }
      long size = own.memory().size(); // the same on all ranks, rounded up alike
      imported.put(sender, CudaShareableMemory.importFrom(device, descriptor.value(), size));
    }
  }

  @Override
  public String missing(PeerInfo peer) {
    if (isLocal(peer)) {
      return "its handle has not come";
    }
    return "rank %d's arena has %s, this rank's has %s"
        .formatted(
            peer.rank(),
            imported.containsKey(peer.rank()) ? "come" : "not come",
            posted.contains(peer.rank()) ? "been sent" : "not been sent");
  }

  @Override
  public void close() {
    if (mailbox != null) {
      mailbox.close();
      mailbox = null;
    }
    found.values().forEach(LocalCudaArena::release);
    found.clear();
    imported.values().forEach(CudaShareableMemory::close);
    imported.clear();
    if (own != null) {
      own.release();
      own = null;
    }
  }
}
