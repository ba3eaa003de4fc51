package org.nccl4j.transport.net.socket.link;

import java.nio.ByteBuffer;
import java.util.zip.CRC32C;
import org.nccl4j.device.HotPath;

/**
 * The CRC32C of messages: over a message's number (8), size (4), tag (4) and note (4), then its
 * bytes. Owned by the thread of its connection's end.
 */
final class MessageSum {
  /** Length in a header. */
  static final int BYTES = Integer.BYTES;

  private final CRC32C crc = new CRC32C();
  private final ByteBuffer header = ByteBuffer.allocate(Long.BYTES + 3 * Integer.BYTES);

  /**
   * Computes a message's sum.
   *
   * @param number of messages on this connection before this one
   * @param payload the message's bytes, which are taken
   */
  @HotPath
  int of(long number, int size, int tag, int note, ByteBuffer payload) {
    header.clear().putLong(number).putInt(size).putInt(tag).putInt(note).flip();
    crc.reset();
    crc.update(header);
    crc.update(payload);
    return (int) crc.getValue();
  }
}
