package org.nccl4j.device.cuda.copy;

import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Operation;

/**
 * The copies of a rank in an operation that only moves data: at most one for each rank of the team.
 * It uses the user's addresses for its own buffers, and the windows' addresses for the others.
 */
final class CopyAddresses {
  private final WindowWork work;
  private final int rank;
  private final long bytes;
  private final long stride;
  private final long sendFlat;
  private final long recvFlat;

  CopyAddresses(WindowWork work, SymmetricSpace space) {
    this.work = work;
    this.rank = space.place();
    this.bytes = work.count() * work.type().bytes();
    this.stride = space.stride();
    this.sendFlat = flat(work.send());
    this.recvFlat = flat(work.recv());
  }

  private static long flat(WindowView window) {
    return window == null ? 0 : window.peers().get(0).address() - window.address();
  }

  /** Bytes of each copy. */
  long bytes() {
    return bytes;
  }

  /** True if this rank copies anything that is another's, or comes from it. */
  boolean copies() {
    return switch (work.operation()) {
      case ALL_GATHER, ALL_TO_ALL -> true;
      case BROADCAST, SCATTER, GATHER -> rank == work.root();
      default -> throw new IllegalStateException(work.operation() + " by copies");
    };
  }

  long target(long recv, int other) {
    long own = recv;
    if (work.operation() == Operation.GATHER) {
      return own + other * bytes;
    }
    if (other != rank) {
      own += recvFlat + other * stride;
    }
    boolean parts =
        work.operation() == Operation.ALL_GATHER || work.operation() == Operation.ALL_TO_ALL;
    return parts ? own + rank * bytes : own;
  }

  long source(long send, int other) {
    return switch (work.operation()) {
      case ALL_TO_ALL, SCATTER -> send + other * bytes;
      case GATHER -> other == rank ? send : send + sendFlat + other * stride;
      default -> send;
    };
  }
}
