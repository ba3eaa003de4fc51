package org.nccl4j.api.plan.trial;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Optional;

/**
 * A notice of {@link TrialVotes}, about the trial in one round of a shape. Bytes: the kind of
 * notice (1), the communicator (8), the ordinal of the type (1), rank, shape, round and trials so
 * far (4 each), calls spent (8).
 *
 * @param communicator its number
 * @param rank that tells
 * @param tried trials of the shape so far, in a proposal
 * @param spent calls by the chosen algorithm that would take as long as the trials have taken
 *     longer, as this rank has found; in an agreement
 */
record TrialNotice(
    long communicator, Type type, int rank, int shape, int round, int tried, double spent) {
  /** First byte of a notice of this kind. Those of {@code ProgressMonitor} have 1 to 3. */
  static final byte KIND = 4;

  private static final int BYTES = 1 + Long.BYTES + 1 + 4 * Integer.BYTES + Double.BYTES;

  /** The types, in the order in which they are sent. */
  enum Type {
    /** Rank 0 to all: may the trial be made? */
    PROPOSED,
    /** To rank 0: this rank will make the trial if rank 0 says so. */
    AGREED,
    /** To rank 0: not this trial, since this rank has not measured all before it. */
    NOT_READY,
    /** To rank 0: not this trial, since this rank has come to its call. */
    TOO_LATE,
    /** To rank 0: this rank has agreed, has come to the call, and waits for the decision. */
    ASKED,
    /** Rank 0 to all: the trial is made. */
    MADE,
    /** Rank 0 to all: the trial is not made. */
    LEFT_OUT
  }

  private static final Type[] TYPES = Type.values();

  byte[] encode() {
    return ByteBuffer.allocate(BYTES)
        .put(KIND)
        .putLong(communicator)
        .put((byte) type.ordinal())
        .putInt(rank)
        .putInt(shape)
        .putInt(round)
        .putInt(tried)
        .putDouble(spent)
        .array();
  }

  /** Empty for a notice of another kind. */
  static Optional<TrialNotice> decode(byte[] bytes) {
    try {
      ByteBuffer in = ByteBuffer.wrap(bytes);
      if (in.get() != KIND) {
        return Optional.empty();
      }
      long communicator = in.getLong();
      int type = in.get();
      if (type < 0 || type >= TYPES.length) {
        return Optional.empty();
      }
      return Optional.of(
          new TrialNotice(
              communicator,
              TYPES[type],
              in.getInt(),
              in.getInt(),
              in.getInt(),
              in.getInt(),
              in.getDouble()));
    } catch (BufferUnderflowException e) {
      return Optional.empty();
    }
  }
}
