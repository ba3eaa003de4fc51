package org.nccl4j.api.bootstrap.root;

import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;

/**
 * The root's message to a rank once all have come.
 *
 * @param next where the next rank waits for it, best first; null to a guest, whose own root tells
 *     it
 * @param nextText that rank, its host and process, for messages; empty where next is null
 * @param previousText the rank before, its host and process, for messages; empty where another root
 *     tells it
 * @param rootRanks the ranks in the root's process, for messages
 */
public record JoinReply(
    List<InetSocketAddress> next, String nextText, String previousText, String rootRanks) {
  private static final int MAX_TEXT = 1024;

  ByteBuffer encode() {
    MessageWriter out = new MessageWriter(FrameType.WELCOME).number(next == null ? 0 : 1);
    return (next == null ? out : out.addresses(next))
        .text(nextText, MAX_TEXT)
        .text(previousText, MAX_TEXT)
        .text(rootRanks, MAX_TEXT)
        .done();
  }

  /** This one, of a block's first rank, with what the root told it whose guest it is. */
  public JoinReply after(JoinReply asGuest) {
    return new JoinReply(next, nextText, asGuest.previousText, rootRanks);
  }

  public static JoinReply decode(MessageReader in) throws ProtocolException {
    List<InetSocketAddress> next = in.number() == 0 ? null : in.addresses();
    return new JoinReply(next, in.text(MAX_TEXT), in.text(MAX_TEXT), in.text(MAX_TEXT));
  }
}
