package org.nccl4j.transport.net;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * A network's handles for the channels of one connection, one after the other. Those of one
 * listening rank and device are mostly alike, and a connector has room for few whole ones. So a
 * handle is how many handles before it the most similar one is (0: none is); its length; the number
 * of bytes at its beginning that are those of that handle, and of bytes at its end, likewise (a
 * byte each); and the bytes between. The one just before is not enough: channels take turns with a
 * GPU's devices.
 */
final class HandleList {
  private static final byte[] NONE = {};
  private static final int HEADER_BYTES = 4;

  private HandleList() {}

  /**
   * Joins the handles that a network has given.
   *
   * @throws InvalidUsageException if they differ so much that a connector has no room for them
   */
  static byte[] join(List<byte[]> handles) {
    ByteBuffer out = ByteBuffer.allocate(Connector.HANDLE_BYTES);
    for (int number = 0; number < handles.size(); number++) {
      byte[] handle = handles.get(number);
      int back = mostSimilar(handles, number);
      byte[] before = before(handles, number, back);
      int alike = alikeAtBeginning(before, handle);
      int end = alikeAtEnd(before, handle, alike);
      int between = handle.length - alike - end;
      if (out.remaining() < HEADER_BYTES + between) {
        throw tooMany(handles.size(), number);
      }
      out.put((byte) back).put((byte) handle.length).put((byte) alike).put((byte) end);
      out.put(handle, alike, between);
    }
    return Arrays.copyOf(out.array(), out.position());
  }

  /** Returns how many handles before another the one is of which the most bytes are the same. */
  private static int mostSimilar(List<byte[]> handles, int number) {
    byte[] handle = handles.get(number);
    int most = 0;
    int found = 0;
    for (int back = 1; back <= number; back++) {
      byte[] before = handles.get(number - back);
      int alike = alikeAtBeginning(before, handle);
      int both = alike + alikeAtEnd(before, handle, alike);
      if (both > most) {
        most = both;
        found = back;
      }
    }
    return found;
  }

  private static byte[] before(List<byte[]> handles, int number, int back) {
    return back == 0 ? NONE : handles.get(number - back);
  }

  private static int alikeAtBeginning(byte[] before, byte[] handle) {
    int differs = Arrays.mismatch(before, handle);
    return differs < 0 ? handle.length : differs;
  }

  private static int alikeAtEnd(byte[] before, byte[] handle, int alike) {
    int most = Math.min(before.length, handle.length) - alike;
    int end = 0;
    while (end < most && before[before.length - 1 - end] == handle[handle.length - 1 - end]) {
      end++;
    }
    return end;
  }

  private static InvalidUsageException tooMany(int channels, int room) {
    return new InvalidUsageException(
        ErrorId.PLUGIN,
        "the network's handles for %d channels of a connection have no room in %d bytes"
            .formatted(channels, Connector.HANDLE_BYTES),
        "set %s=%d on all ranks; the author of a network for NCCL makes its handles shorter, or"
                .formatted(TopologySettings.NCCL_NCHANNELS_PER_NET_PEER.name(), room)
            + " those of one rank alike");
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
        int back = in.get() & 0xff;
        if (back > handles.size()) {
          throw new BufferUnderflowException();
        }
        handles.add(next(in, before(handles, handles.size(), back)));
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
          "give all ranks the same NCCL_NCHANNELS_PER_NET_PEER, and the same NCCL_ALGO,"
              + " NCCL_PAT_ENABLE, NCCL_NVLS_ENABLE, NCCL4J_NVLS_MODE and NCCL_RUNTIME_CONNECT,"
              + " which decide between which ranks more channels are of use; and run the same"
              + " version of nccl4j on all of them");
    }
    return handles;
  }

  private static byte[] next(ByteBuffer in, byte[] before) {
    byte[] handle = new byte[in.get() & 0xff];
    int alike = in.get() & 0xff;
    int end = in.get() & 0xff;
    int most = Math.min(before.length, handle.length);
    if (alike + end > most) {
      throw new BufferUnderflowException();
    }
    System.arraycopy(before, 0, handle, 0, alike);
    in.get(handle, alike, handle.length - alike - end);
    System.arraycopy(before, before.length - end, handle, handle.length - end, end);
    return handle;
  }
}
