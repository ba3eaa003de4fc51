package org.nccl4j.api.window;

import java.util.HexFormat;
import org.nccl4j.device.symmetric.Exportable;

/** What a rank holds ready for the others during one registration. */
final class Offer implements AutoCloseable {
  private final String communicator;
  private final int rank;
  private final HandleExchange exchange;

  /**
   * Offers an allocation to the ranks of this process and opens a mailbox for those of others.
   *
   * @param allocation null where there is none to be offered
   * @param abroad whether ranks of the team are in other processes
   */
  Offer(byte[] secret, int rank, Exportable allocation, boolean abroad) {
    this.communicator = HexFormat.of().formatHex(secret);
    this.rank = rank;
    this.exchange = abroad && allocation != null ? new HandleExchange(secret, rank) : null;
    if (allocation != null) {
      LocalAllocations.offer(communicator, rank, allocation);
    }
  }

  String mailbox() {
    return exchange == null ? "" : exchange.path();
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
