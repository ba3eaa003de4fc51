package org.nccl4j.api.bootstrap.connection;

import java.net.ProtocolException;

/** The messages after the handshake; the ordinal is what is sent. */
public enum FrameType {
  /** Rank to root, first: a {@code JoinMessage}. */
  HELLO,
  /** Root to rank, when the hello was understood: its {@code ProcessIdentity}. */
  ROOT,
  /** Root to rank, when all ranks have come: a {@code JoinReply}. */
  WELCOME,
  /** Either way, on any connection: a {@code FailureMessage}. */
  FAILURE,
  /** Either way, last: the end that follows is no failure. Empty. */
  GOODBYE,
  /** Root to rank: the root's process has no rank any more, its end is no failure. Empty. */
  ROOT_LEAVES,
  /** Rank to next rank, first: whom it looks for, and who it is. */
  RING_HELLO,
  /** Rank to next rank: sequence number, rank of origin, bytes. */
  DATA,
  /** Rank to a rank that leads a new communicator, first: whom it looks for, and the key. */
  MEET,
  /** The answer, last: the new root's id without its secret. */
  MEET_AT,
  /** Rank to any other rank, first: whom it looks for, and bytes. */
  CALL,
  /** The answer, last: bytes. */
  ANSWER,
  /** Rank to root now and then, with the milliseconds of silence it allows; and back, empty. */
  HEARTBEAT,
  /**
   * Rank to root, root to the other ranks, and around the ring: {@code NoticeBroadcast}, one or
   * more.
   */
  NOTICE,
  /** Observer to root, first: its version, and the question, if it is not for the states. */
  OBSERVE,
  /** Root to rank: the number of a question, and the question. */
  STATE_ASKED,
  /** Rank to root, that number and its answer; root to observer, one rank with its answer. */
  STATE,
  /** Root to observer, last: number of ranks, and whether all have come. */
  STATES_END;

  private static final FrameType[] ALL = values();

  static FrameType of(byte code) throws ProtocolException {
    if (code < 0 || code >= ALL.length) {
      throw new ProtocolException("it sent a message of unknown type " + code);
    }
    return ALL[code];
  }
}
