package org.nccl4j.api.bootstrap.root;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;

/**
 * One rank of a job, as the root reports it to an observer.
 *
 * @param host of its process
 * @param pid of its process
 * @param answered false if it gave no answer in time, or was not asked
 * @param state bytes that its {@code Bootstrap} was given as the answer: its state, or what else
 *     was asked; empty if there are none
 */
public record RankState(int rank, String host, long pid, boolean answered, byte[] state) {
  /** No state is longer. */
  public static final int MAX_BYTES = 48 << 10;

  /** Longest message that holds a state. */
  public static final int MAX_MESSAGE_BYTES = 64 << 10;

  static ByteBuffer encode(JoinMessage rank, boolean answered, byte[] state) {
    return new MessageWriter(FrameType.STATE, state.length + 256)
        .number(rank.rank())
        .text(rank.who().host(), JoinMessage.MAX_TEXT)
        .number(rank.who().pid())
        .number(answered ? 1 : 0)
        .bytes(state)
        .done();
  }

  /** Reads the root's message. */
  public static RankState decode(MessageReader in) throws ProtocolException {
    return new RankState(
        in.number(),
        in.text(JoinMessage.MAX_TEXT),
        in.longNumber(),
        in.number() != 0,
        in.bytes(MAX_BYTES));
  }
}
