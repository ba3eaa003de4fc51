package org.nccl4j.api.bootstrap.root;

import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;

/**
 * The root's message to a rank once all have joined.
 *
 * @param next addresses of the next rank, best first; null to a guest, which gets them from its own
 *     root
 * @param nextText that rank, its host and process, for messages; empty where next is null
 * @param previousText the previous rank, its host and process, for messages; empty if another root
 *     sends it
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

  /**
   * Returns this reply to a block's first rank, with the fields of the root whose guest the rank
   * is.
   */
  public JoinReply after(JoinReply asGuest) {
    return new JoinReply(next, nextText, asGuest.previousText, rootRanks);
  }

  public static JoinReply decode(MessageReader in) throws ProtocolException {
    List<InetSocketAddress> next = in.number() == 0 ? null : in.addresses();
    return new JoinReply(next, in.text(MAX_TEXT), in.text(MAX_TEXT), in.text(MAX_TEXT));
  }
}
