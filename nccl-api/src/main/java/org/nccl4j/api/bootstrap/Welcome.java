package org.nccl4j.api.bootstrap;

import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;

/**
 * What the root tells a rank once all have come.
 *
 * @param next where the next rank waits for it
 * @param nextText that rank, its host and process, for messages
 * @param previousText the rank before, its host and process, for messages
 * @param rootRanks the ranks in the root's process, for messages
 */
record Welcome(InetSocketAddress next, String nextText, String previousText, String rootRanks) {
  private static final int MAX_TEXT = 1024;

  ByteBuffer encode() {
    return new MessageWriter(FrameType.WELCOME)
        .address(next)
        .text(nextText, MAX_TEXT)
        .text(previousText, MAX_TEXT)
        .text(rootRanks, MAX_TEXT)
        .done();
  }

  static Welcome decode(MessageReader in) throws ProtocolException {
    return new Welcome(in.address(), in.text(MAX_TEXT), in.text(MAX_TEXT), in.text(MAX_TEXT));
  }
}
