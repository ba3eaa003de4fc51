package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.kernel.SharedConnections;

/**
 * Finds the communicator that sends on each shared connection; see {@link SharedConnections}. Peers
 * are ranks of the first communicator. Nothing is known where the sender is far ahead, since it has
 * announced later changes already. Owned by the thread whose turn it is.
 */
final class SharingCheck {
  private final int[] senders;
  private final int[] receivers;

  /** Last report to each peer: the first step, its communicator, and the communicator before. */
  private final long[] told;

  /** The steps received when the receiver changed last. */
  private final int[] seen;

  SharingCheck(int nRanks) {
    senders = new int[nRanks];
    receivers = new int[nRanks];
    told = new long[nRanks];
    seen = new int[nRanks];
  }

  /** Tells the peer, before anything is sent for a communicator, if that changes. */
  void sends(SendEnd end, int peer, int user) {
    if (senders[peer] == user) {
      return;
    }
    int step = (int) end.step();
    // If nothing was sent since the last change, the last data belong to the communicator before.
    int before = begin(told[peer]) == step ? before(told[peer]) : sender(told[peer]);
    told[peer] = (long) step << 32 | (long) user << 16 | before;
    senders[peer] = user;
    end.tell(told[peer]);
  }

  /**
   * Before anything is received for a communicator: whether what was received for another since the
   * last change was sent for that, as far as is known.
   */
  boolean receives(RecvEnd end, int peer, int user) {
    int last = receivers[peer];
    if (last == user) {
      return true;
    }
    int received = (int) end.step();
    int since = seen[peer];
    receivers[peer] = user;
    seen[peer] = received;
    long said = received == since ? 0 : end.told();
    if (said == 0 || begin(said) - received > 0) {
      return true;
    }
    if (begin(said) == received) {
      return before(said) == last;
    }
    return sender(said) == last && (begin(said) - since <= 0 || before(said) == last);
  }

  private static int begin(long told) {
    return (int) (told >>> 32);
  }

  private static int sender(long told) {
    return (int) (told >>> 16 & 0xffff);
  }

  private static int before(long told) {
    return (int) (told & 0xffff);
  }
}
