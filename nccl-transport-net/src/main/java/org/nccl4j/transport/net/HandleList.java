package org.nccl4j.transport.net;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * A network's handles for the channels of one connection, one after the other, each after its
 * length, a byte.
 */
final class HandleList {
  private HandleList() {}

  static byte[] join(List<byte[]> handles) {
    ByteBuffer out = ByteBuffer.allocate(Connector.HANDLE_BYTES);
    handles.forEach(handle -> out.put((byte) handle.length).put(handle));
    byte[] bytes = new byte[out.position()];
    out.flip().get(bytes);
    return bytes;
  }

  /**
   * The handles that a peer has joined.
   *
   * @param channels that this rank has with it
   * @throws InvalidUsageException if they are not a list, or have other sizes
   */
  static List<byte[]> split(byte[] joined, int channels, int peer) {
    List<byte[]> handles = new ArrayList<>();
    try {
      ByteBuffer in = ByteBuffer.wrap(joined);
      while (in.hasRemaining()) {
        byte[] handle = new byte[in.get() & 0xff];
        in.get(handle);
        handles.add(handle);
      }
    } catch (BufferUnderflowException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "rank %d sent %d bytes that are not handles of a network".formatted(peer, joined.length),
          "run the same version of nccl4j on all ranks",
          e);
    }
    if (handles.size() != channels) {
      throw new InvalidUsageException(
          ErrorId.SETTINGS_DIFFER,
          "rank %d carries %d channels of a connection over the network, this rank %d"
              .formatted(peer, handles.size(), channels),
          "give all ranks the same NCCL_NCHANNELS_PER_NET_PEER, and run the same version of nccl4j"
              + " on all of them");
    }
    return handles;
  }
}
