package org.nccl4j.api.bootstrap.root;

import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;

/**
 * A rank's first message to the root, with its identity. All fields but the last never change their
 * layout, so that another version can be named.
 *
 * @param who its process; the version comes first in the message
 * @param rank its number
 * @param nRanks number of ranks that it was started with
 * @param deadlineMillis its longest wait for the others
 * @param place fields that only ranks of one version can read; null if it has another version
 */
public record JoinMessage(
    ProcessIdentity who, int rank, int nRanks, long deadlineMillis, Place place) {
  /**
   * The place of a rank: its root, and its addresses.
   *
   * @param root number of the root that it contacts
   * @param nRoots number of roots that it knows
   * @param ring addresses where the previous rank reaches it, best first
   */
  public record Place(int root, int nRoots, List<InetSocketAddress> ring) {}

  static final int MAX_TEXT = 256;

  public ByteBuffer encode() {
    return encode(new MessageWriter(FrameType.HELLO), who)
        .number(rank)
        .number(nRanks)
        .number(deadlineMillis)
        .number(place.root)
        .number(place.nRoots)
        .addresses(place.ring)
        .done();
  }

  static JoinMessage decode(MessageReader in, String ourVersion) throws ProtocolException {
    ProcessIdentity who = decodeIdentity(in);
    int rank = in.number();
    int nRanks = in.number();
    long deadlineMillis = in.longNumber();
    boolean ours = who.version().equals(ourVersion);
    Place place = ours ? new Place(in.number(), in.number(), in.addresses()) : null;
    return new JoinMessage(who, rank, nRanks, deadlineMillis, place);
  }

  public static MessageWriter encode(MessageWriter out, ProcessIdentity who) {
    return out.text(who.version(), MAX_TEXT)
        .text(who.host(), MAX_TEXT)
        .number(who.pid())
        .text(who.token(), MAX_TEXT);
  }

  public static ProcessIdentity decodeIdentity(MessageReader in) throws ProtocolException {
    String version = in.text(MAX_TEXT);
    return new ProcessIdentity(in.text(MAX_TEXT), in.longNumber(), in.text(MAX_TEXT), version);
  }

  /** "rank 2 (host h, process 42)". */
  String text() {
    return "rank " + rank + " (" + who.text() + ")";
  }
}
