package org.nccl4j.api.bootstrap;

import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * The root's answer to a rank after all ranks have joined.
 *
 * @param next where the next rank waits for it, best first; null to a guest, whose own root tells
 *     it
 * @param nextText that rank, its host and process, for messages; empty where next is null
 * @param previousText the rank before, its host and process, for messages; empty where another root
 *     tells it
 * @param rootRanks the ranks in the root's process, for messages
 */
record Welcome(
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
  Welcome after(Welcome asGuest) {
    return new Welcome(next, nextText, asGuest.previousText, rootRanks);
  }

  static Welcome decode(MessageReader in) throws ProtocolException {
    List<InetSocketAddress> next = in.number() == 0 ? null : in.addresses();
    return new Welcome(next, in.text(MAX_TEXT), in.text(MAX_TEXT), in.text(MAX_TEXT));
  }
}
