package org.nccl4j.api.window;

import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import org.nccl4j.api.wire.FdExchange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.symmetric.ShareableMemory;

/** A rank's open handles for the other ranks during one registration. */
final class HandleOffer implements AutoCloseable {
  private static final String FABRIC = "fabric:";

  private final String communicator;
  private final int rank;

  /** Null where nothing is to be given to other processes. */
  private final FdExchange descriptors;

  private final OwnedFd own;
  private final Map<Integer, OwnedFd> received = new HashMap<>();
  private final String fabric;

  /**
   * Offers an allocation to the ranks of this process, and opens a mailbox for those of others or
   * names a handle by which they map it.
   *
   * @param allocation null where there is none to be offered
   * @param fabricHandle of the allocation; empty where others get descriptors
   * @param abroad whether ranks of the team are in other processes
   */
  HandleOffer(
      byte[] secret, int rank, ShareableMemory allocation, byte[] fabricHandle, boolean abroad) {
    this.communicator = HexFormat.of().formatHex(secret);
    this.rank = rank;
    this.fabric = fabricHandle.length == 0 ? "" : FABRIC + HexFormat.of().formatHex(fabricHandle);
    boolean gives = abroad && allocation != null && fabric.isEmpty();
    this.own = gives ? new OwnedFd(allocation.exportFileDescriptor()) : null;
    this.descriptors = gives ? exchange(secret) : null;
    if (allocation != null) {
      LocalAllocations.offer(communicator, rank, allocation);
    }
  }

  /** Returns the address to which others send, or the handle with which they map the allocation. */
  String mailbox() {
    return descriptors == null ? fabric : descriptors.path();
  }

  /** The handle that a rank named in place of a mailbox. */
  static byte[] fabricHandle(int rank, String mailbox) {
    try {
      if (mailbox.startsWith(FABRIC)) {
        return HexFormat.of().parseHex(mailbox.substring(FABRIC.length()));
      }
    } catch (IllegalArgumentException e) {
      throw notUnderstood(rank, e);
    }
    throw notUnderstood(rank, null);
  }

  private static RemoteException notUnderstood(int rank, Exception cause) {
    return new RemoteException(
        ErrorId.PROTOCOL,
        "rank %d sent no fabric handle of its memory".formatted(rank),
        "run the same version of nccl4j on all ranks",
        cause);
  }

  private FdExchange exchange(byte[] secret) {
    try {
      return FdExchange.open(secret);
    } catch (RuntimeException e) {
      own.close();
      throw e;
    }
  }

  /**
   * Gives ranks of other processes a descriptor of the allocation and takes one of each.
   *
   * @param mailboxes theirs, by rank
   * @param endNanos when to give up
   * @param check throws if a rank has failed, of which nothing comes any more
   * @return theirs, by rank; closed with this object
   */
  Map<Integer, OwnedFd> swap(Map<Integer, String> mailboxes, long endNanos, Runnable check) {
    Set<Integer> ranks = mailboxes.keySet();
    FdExchange.Missing missing =
        descriptors.swap(rank, own.value(), mailboxes, ranks, endNanos, check);
    if (!missing.isEmpty()) {
      throw new TimeoutException(
          ErrorId.NOT_CONNECTED,
          ("by the deadline rank %d has not received memory of ranks %s, and ranks %s have not"
                  + " taken its memory")
              .formatted(rank, missing.givers(), missing.takers()),
          "look at their logs, or give more time (withInitTimeout or NCCL4J_INIT_TIMEOUT)");
    }
    for (int other : ranks) {
      received.put(other, new OwnedFd(descriptors.take(other).orElseThrow().fd()));
    }
    return received;
  }

  /** Returns the memory that a rank of this process offers in the same registration. */
  ShareableMemory of(int other) {
    return LocalAllocations.find(communicator, other);
  }

  @Override
  public void close() {
    LocalAllocations.withdraw(communicator, rank);
    if (descriptors != null) {
      received.values().forEach(OwnedFd::close);
      own.close();
      descriptors.close();
    }
  }
}
