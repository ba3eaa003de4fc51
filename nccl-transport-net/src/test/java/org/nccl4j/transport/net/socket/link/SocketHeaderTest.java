package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.host.HostDevice;

/** A header that is damaged ends the connection; one whose receive comes later waits for it. */
@Timeout(600)
class SocketHeaderTest {
  private static final int BITS = 8 * SocketLink.HEADER_BYTES;

  private SocketChannel out;
  private SocketChannel in;
  private final SocketWatch watch =
      new SocketWatch(Duration.ZERO, Duration.ZERO, () -> {}, () -> null);
  private SocketLink link;
  private SocketReceiver receiver;
  private DeviceMemory memory;

  @BeforeEach
  void connect() throws IOException {
    try (ServerSocketChannel server = ServerSocketChannel.open()) {
      server.bind(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0));
      out = SocketChannel.open(server.getLocalAddress());
      in = server.accept();
    }
    // Reads wait, so that what was written is there once one returns.
    link =
        new SocketLink(
            new DataChannel[] {DataChannel.plain(in)}, new NoSpareSockets(), watch, false);
    receiver =
        new SocketReceiver(
            new Accepted(), link, new DataSocketCount(0, 0, false), new SharedSocketThreads(1));
    memory = HostDevice.instance().allocate(64);
  }

  @AfterEach
  void close() throws IOException {
    receiver.close();
    watch.close();
    out.close();
    memory.close();
  }

  private final class Accepted implements SocketSource {
    @Override
    public SocketLink poll() {
      return link;
    }

    @Override
    public void close() {
      link.end();
      Sockets.close(in);
    }
  }

  private NetRequest receive(int tag) {
    NetMemory[] to = {receiver.register(memory)};
    NetRequest request = null;
    while (request == null) { // the watch may be reading
      request = receiver.irecv(1, to, new long[] {0}, new int[] {64}, new int[] {tag});
    }
    return request;
  }

  private static ByteBuffer message(long number, int size, int tag) {
    ByteBuffer message = ByteBuffer.allocate(SocketLink.HEADER_BYTES + size);
    message.putInt(size).putInt(tag).putInt(0).putInt(SocketLink.check(number, size, tag, 0));
    return message.rewind();
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 7, 31, 32, 40, 63, 64, BITS - 1})
  void aBitThatChangedEndsTheConnection(int bit) throws IOException {
    ByteBuffer message = message(0, 8, 5);
    message.put(bit / 8, (byte) (message.get(bit / 8) ^ 1 << bit % 8));
    out.write(message);
    NetRequest request = receive(5);
    RemoteException error = assertThrows(RemoteException.class, () -> request.test(null));
    assertTrue(error.problem().contains("the header of message 0 is damaged"), error.problem());
  }

  @Test
  void aMessageThatCameTwiceEndsTheConnection() throws IOException {
    out.write(message(0, 8, 5));
    assertTrue(receive(5).test(null));
    out.write(message(0, 8, 5));
    NetRequest again = receive(5);
    RemoteException error = assertThrows(RemoteException.class, () -> again.test(null));
    assertTrue(error.problem().contains("message 1"), error.problem());
  }

  @Test
  void aTagWhoseReceiveComesLaterWaitsForIt() throws IOException {
    out.write(message(0, 8, 5));
    assertFalse(receive(4).test(null));
    int[] size = new int[1];
    assertTrue(receive(5).test(size));
    assertEquals(8, size[0]);
  }
}
