package org.nccl4j.api.window;

import java.util.HexFormat;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.symmetric.Exportable;

/** What a rank holds ready for the others during one registration. */
final class Offer implements AutoCloseable {
  private static final String FABRIC = "fabric:";

  private final String communicator;
  private final int rank;
  private final HandleExchange exchange;
  private final String fabric;

  /**
   * Offers an allocation to the ranks of this process, and opens a mailbox for those of others or
   * names a handle by which they map it.
   *
   * @param allocation null where there is none to be offered
   * @param fabricHandle of the allocation; empty where others get descriptors
   * @param abroad whether ranks of the team are in other processes
   */
  Offer(byte[] secret, int rank, Exportable allocation, byte[] fabricHandle, boolean abroad) {
    this.communicator = HexFormat.of().formatHex(secret);
    this.rank = rank;
    this.fabric = fabricHandle.length == 0 ? "" : FABRIC + HexFormat.of().formatHex(fabricHandle);
    this.exchange =
        abroad && allocation != null && fabric.isEmpty()
            ? new HandleExchange(secret, rank, allocation)
            : null;
    if (allocation != null) {
      LocalAllocations.offer(communicator, rank, allocation);
    }
  }

  /** Where others send to, or how they map the allocation. */
  String mailbox() {
    return exchange == null ? fabric : exchange.path();
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
        "rank %d names no fabric handle of its memory".formatted(rank),
        "run the same version of nccl4j on all ranks",
        cause);
  }

  HandleExchange exchange() {
    return exchange;
  }

  /** What a rank of this process offers in the same registration. */
  Exportable of(int other) {
    return LocalAllocations.find(communicator, other);
  }

  @Override
  public void close() {
    LocalAllocations.withdraw(communicator, rank);
    if (exchange != null) {
      exchange.close();
    }
  }
}
