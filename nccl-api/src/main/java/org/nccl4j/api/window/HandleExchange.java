package org.nccl4j.api.window;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Patience;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.shm.FdMailbox;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.ReceivedFd;
import org.nccl4j.device.symmetric.Exportable;

/**
 * Swaps file descriptors of one registration with ranks in other processes. Used by one thread, for
 * one swap.
 */
final class HandleExchange implements AutoCloseable {
  private static final long POLL_NANOS = 50_000;

  private final FdMailbox mailbox;
  private final OwnedFd own;
  private final int rank;
  private final Map<Integer, OwnedFd> received = new HashMap<>();

  /**
   * A mailbox for one swap, and a descriptor to be given.
   *
   * @throws org.nccl4j.device.NcclException if there is no more room for either, or the driver
   *     refuses
   */
  HandleExchange(byte[] secret, int rank, Exportable allocation) {
    this.mailbox = FdMailbox.open(secret);
    this.rank = rank;
    try {
      this.own = new OwnedFd(allocation.exportFileDescriptor());
    } catch (RuntimeException e) {
      mailbox.close();
      throw e;
    }
  }

  /** Where others send to. */
  String path() {
    return mailbox.path().toString();
  }

  /**
   * Gives each peer a descriptor of the own allocation and takes one of each.
   *
   * @param paths their mailboxes, by rank
   * @param endNanos when to give up
   * @return theirs, by rank; closed with this object
   */
  Map<Integer, OwnedFd> swap(Map<Integer, String> paths, long endNanos) {
    Set<Integer> unsent = new HashSet<>(paths.keySet());
    byte[] key = ByteBuffer.allocate(Integer.BYTES).putInt(rank).array();
    while (true) {
      unsent.removeIf(peer -> mailbox.post(own.value(), Path.of(paths.get(peer)), key));
      receive(paths.keySet());
      if (unsent.isEmpty() && received.keySet().containsAll(paths.keySet())) {
        return received;
      }
      if (System.nanoTime() - endNanos > 0) {
        Set<Integer> missing = new HashSet<>(paths.keySet());
        missing.removeAll(received.keySet());
        throw new TimeoutException(
            ErrorId.NOT_CONNECTED,
            "rank %d has no memory of ranks %s by the deadline".formatted(rank, missing),
            "look at their logs, or give more time (withInitDeadline or NCCL4J_INIT_TIMEOUT)");
      }
      Patience.sleep(POLL_NANOS);
    }
  }

  private void receive(Set<Integer> expected) {
    Optional<ReceivedFd> next = mailbox.poll();
    while (next.isPresent()) {
      OwnedFd descriptor = new OwnedFd(next.get().fd());
      byte[] key = next.get().key();
      int sender = key.length == Integer.BYTES ? ByteBuffer.wrap(key).getInt() : -1;
      if (!expected.contains(sender) || received.putIfAbsent(sender, descriptor) != null) {
        descriptor.close();
        throw new RemoteException(
            ErrorId.PROTOCOL,
            "memory came from rank %d that was not asked for, or came twice".formatted(sender),
            "run the same version of nccl4j on all ranks, and no two ranks with the same number");
      }
      next = mailbox.poll();
    }
  }

  @Override
  public void close() {
    received.values().forEach(OwnedFd::close);
    own.close();
    mailbox.close();
  }
}
