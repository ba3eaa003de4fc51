package org.nccl4j.api.bootstrap;

import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * The address of a rank's {@link RejoinPoint}: a listening socket, which it may share, and its
 * number.
 *
 * @param sockets where its process listens, best first
 * @param rank in the communicator that the meeting point belongs to
 */
record RejoinAddress(List<InetSocketAddress> sockets, int rank) {
  /** Encodes the address for other ranks. */
  byte[] encode() {
    ByteBuffer frame = new MessageWriter(FrameType.MEET).addresses(sockets).number(rank).done();
    byte[] bytes = new byte[frame.remaining() - MessageWriter.HEADER_BYTES];
    frame.position(MessageWriter.HEADER_BYTES).get(bytes);
    return bytes;
  }

  static RejoinAddress decode(byte[] bytes) {
    try {
      MessageReader in = new MessageReader(ByteBuffer.wrap(bytes));
      return new RejoinAddress(in.addresses(), in.number());
    } catch (ProtocolException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "the address that a rank sent for a new communicator is invalid (" + e.getMessage() + ")",
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  /** Returns a description for messages. */
  String text() {
    return BootstrapId.text(sockets);
  }
}
