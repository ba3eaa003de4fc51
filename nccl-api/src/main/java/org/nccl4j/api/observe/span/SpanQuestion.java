package org.nccl4j.api.observe.span;

import java.nio.ByteBuffer;
import java.util.Optional;

/**
 * An observer's question for the operations of a rank since its last question. As bytes: the kind
 * of question (1), the recording (8), 1 if it goes on (1).
 *
 * @param recording tells recordings apart: a random number
 * @param goesOn false if the rank is to record no more, and only sends what it has
 */
public record SpanQuestion(long recording, boolean goesOn) {
  private static final byte KIND = 1;
  private static final int BYTES = 1 + Long.BYTES + 1;

  byte[] encode() {
    return ByteBuffer.allocate(BYTES)
        .put(KIND)
        .putLong(recording)
        .put((byte) (goesOn ? 1 : 0))
        .array();
  }

  /** Empty for a question of another kind. */
  public static Optional<SpanQuestion> decode(byte[] bytes) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    return bytes.length == BYTES && in.get() == KIND
        ? Optional.of(new SpanQuestion(in.getLong(), in.get() != 0))
        : Optional.empty();
  }
}
