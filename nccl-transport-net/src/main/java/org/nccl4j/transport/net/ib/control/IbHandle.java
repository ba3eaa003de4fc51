package org.nccl4j.transport.net.ib.control;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.NicMerge;

/**
 * The address of a listener for a sender: at most 128 bytes.
 *
 * <pre>
 *   0  "nib5"
 *   4  session, 8 bytes: which listener is meant
 *  12  TCP port, 2 bytes
 *  14  queue pairs for each port that the listener wants, 1 byte
 *  15  ports of the listener's NIC, 1 byte
 *  16  number of addresses, 1 byte
 *  17  addresses: length, 4 or 16; then so many bytes
 * </pre>
 *
 * @param session which listener is meant
 * @param port its TCP port
 * @param queuePairs how many queue pairs it wants at least for each port
 * @param ports how many ports its NIC has
 * @param addresses where it can be reached, best first
 */
public record IbHandle(
    long session, int port, int queuePairs, int ports, List<InetAddress> addresses) {
  public static final int MAX_QUEUE_PAIRS = IbSettings.MAX_QUEUE_PAIRS;
  private static final int MAGIC = 0x6e696235;

  public byte[] encode() {
    ByteBuffer out = ByteBuffer.allocate(NetListener.HANDLE_BYTES);
    out.putInt(MAGIC).putLong(session).putShort((short) port).put((byte) queuePairs);
    out.put((byte) ports);
    int countAt = out.position();
    out.put((byte) 0);
    for (InetAddress address : addresses) {
      byte[] bytes = address.getAddress();
      if (out.remaining() > bytes.length) {
        out.put((byte) bytes.length).put(bytes);
        out.put(countAt, (byte) (out.get(countAt) + 1));
      }
    }
    byte[] handle = new byte[out.position()];
    out.flip().get(handle);
    return handle;
  }

  /**
   * The handle of these bytes.
   *
   * @throws InvalidUsageException if they are no handle
   */
  public static IbHandle decode(byte[] handle) {
    try {
      ByteBuffer in = ByteBuffer.wrap(handle);
      if (in.getInt() == MAGIC && handle.length <= NetListener.HANDLE_BYTES) {
        long session = in.getLong();
        int port = in.getShort() & 0xffff;
        int queuePairs = in.get() & 0xff;
        int ports = in.get() & 0xff;
        int count = in.get();
        List<InetAddress> addresses = new ArrayList<>();
        for (int i = 0; i < count; i++) {
          byte[] address = new byte[in.get() & 0x1f];
          in.get(address);
          addresses.add(InetAddress.getByAddress(address));
        }
        boolean sensible =
            port > 0
                && queuePairs >= 1
                && queuePairs <= MAX_QUEUE_PAIRS
                && ports >= 1
                && ports <= NicMerge.MOST_PORTS;
        if (sensible && !addresses.isEmpty()) {
          return new IbHandle(session, port, queuePairs, ports, addresses);
        }
      }
    } catch (BufferUnderflowException | UnknownHostException e) {
      throw wrong(handle, e);
    }
    throw wrong(handle, null);
  }

  private static InvalidUsageException wrong(byte[] handle, Throwable cause) {
    return new InvalidUsageException(
        ErrorId.RANKS_DIFFER,
        "%d bytes are not the handle of an InfiniBand listener".formatted(handle.length),
        "run the same version of nccl4j on all ranks",
        cause);
  }

  /** The session as a handshake's request. */
  public byte[] sessionBytes() {
    return ByteBuffer.allocate(Long.BYTES).putLong(session).array();
  }

  /** The addresses with the port, in turn, from the one at a place on. */
  public List<InetSocketAddress> socketAddresses(int place) {
    List<InetSocketAddress> turned = new ArrayList<>();
    for (int i = 0; i < addresses.size(); i++) {
      turned.add(new InetSocketAddress(addresses.get((place + i) % addresses.size()), port));
    }
    return turned;
  }
}
