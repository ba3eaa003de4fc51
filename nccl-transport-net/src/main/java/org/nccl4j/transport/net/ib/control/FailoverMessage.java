package org.nccl4j.transport.net.ib.control;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * A message of two ends that make other queue pairs for their connection, over the control
 * connection.
 *
 * <pre>
 *   0  kind, 1 byte: the ordinal and 16
 *   1  NIC, 1 byte
 *   2  1 byte: whether a description of an end follows
 *   3  0
 *   4  epoch, 4 bytes
 *   8  active NICs, 8 bytes
 *  16  next group, 8 bytes
 *  24  waiting groups, 8 bytes
 *  32  reason, 320 bytes of UTF-8, zeros behind it
 * 352  RemoteQpInfo
 * </pre>
 *
 * @param kind the step
 * @param epoch the sender's number of the attempt
 * @param nic that the sender asks for, among the receiver's
 * @param active the NICs of the end that says it which are up, a bit for each
 * @param next the number of the receiver's next group
 * @param waiting a bit for each slot whose last group is not complete at the receiver
 * @param reason for people
 * @param end the queue pairs of the end that says it; null if it has none to say
 */
public record FailoverMessage(
    Kind kind,
    int epoch,
    int nic,
    long active,
    long next,
    long waiting,
    String reason,
    RemoteQpInfo end) {
  /** The steps. */
  public enum Kind {
    /** The receiver asks the sender for other queue pairs. */
    ASK,
    /** The sender has made queue pairs and asks for some at a port. */
    OFFER,
    /** The receiver has made them. */
    ANSWER,
    /** The receiver cannot. */
    REFUSE,
    /** The sender uses the old ones no more, and has found the new ones to work. */
    SWITCH,
    /** The receiver uses the new ones, and says what it has. */
    POSITION,
    /** The sender waits for announcements, and asks whether the receiver hears it. */
    PING,
    /** It does. */
    PONG,
    /** The end that says it gives up the connection, for the reason. */
    GIVE_UP
  }

  /** A message without anything else to say. */
  public static FailoverMessage of(Kind kind) {
    return of(kind, "");
  }

  /** A message with nothing but a reason. */
  public static FailoverMessage of(Kind kind, String reason) {
    return new FailoverMessage(kind, 0, 0, 0, 0, 0, reason, null);
  }

  public static final int BYTES = 352 + RemoteQpInfo.BYTES;
  private static final int FIRST = 16;
  private static final int REASON = 32;
  private static final int REASON_BYTES = 320;
  private static final int END = 352;

  public byte[] encode() {
    ByteBuffer out = ByteBuffer.allocate(BYTES);
    out.put((byte) (FIRST + kind.ordinal())).put((byte) nic).put((byte) (end == null ? 0 : 1));
    out.put((byte) 0).putInt(epoch).putLong(active).putLong(next).putLong(waiting);
    byte[] text = reason.getBytes(StandardCharsets.UTF_8);
    out.put(text, 0, Math.min(text.length, REASON_BYTES));
    if (end != null) {
      out.position(END).put(end.encode());
    }
    return out.array();
  }

  /** The message of these bytes. */
  public static FailoverMessage decode(byte[] bytes) throws ProtocolException {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    int kind = in.get() - FIRST;
    if (kind < 0 || kind >= Kind.values().length) {
      throw new ProtocolException("it says something unknown: " + kind);
    }
    int nic = in.get() & 0xff;
    boolean hasEnd = in.get() == 1;
    in.get();
    int epoch = in.getInt();
    long active = in.getLong();
    long next = in.getLong();
    long waiting = in.getLong();
    String text = new String(bytes, REASON, REASON_BYTES, StandardCharsets.UTF_8);
    int length = text.indexOf(0);
    boolean needsEnd = Kind.values()[kind] == Kind.OFFER || Kind.values()[kind] == Kind.ANSWER;
    if (needsEnd && !hasEnd) {
      throw new ProtocolException("it names no queue pairs");
    }
    byte[] end = new byte[RemoteQpInfo.BYTES];
    in.position(END).get(end);
    return new FailoverMessage(
        Kind.values()[kind],
        epoch,
        nic,
        active,
        next,
        waiting,
        length < 0 ? text : text.substring(0, length),
        hasEnd ? RemoteQpInfo.decode(end) : null);
  }
}
