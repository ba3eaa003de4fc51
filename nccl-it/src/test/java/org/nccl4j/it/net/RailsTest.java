package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.nccl4j.it.net.WiredRanks.until;

import java.nio.ByteBuffer;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** A connection's sockets go over several interfaces, of which one leads nowhere. */
@Timeout(600)
class RailsTest {
  private static final int BYTES = 1 << 20;

  private static final Map<String, String> THREE_THREADS = Map.of("NCCL_SOCKET_NTHREADS", "3");

  /** Of a handle: where the number of addresses is; rails are the last byte but one. */
  private static final int ADDRESSES_AT = 19;

  /** As of a host that has 127.0.0.2 too, where nobody listens. */
  private static byte[] withAnotherRail(byte[] handle) {
    assertEquals(1, handle[ADDRESSES_AT], "addresses of loopback");
    int rails = handle.length - 2;
    assertEquals(1, handle[rails], "rails");
    ByteBuffer more = ByteBuffer.allocate(handle.length + 5);
    more.put(handle, 0, rails)
        .put(new byte[] {handle[ADDRESSES_AT + 1], 127, 0, 0, 2, 2})
        .put(handle, rails + 1, 1);
    return more.put(ADDRESSES_AT, (byte) 2).array();
  }

  @Test
  void aRailThatLeadsNowhereIsLeftOut() {
    try (Net net = new SocketNetProvider().open(LoopbackContext.of(0, THREE_THREADS));
        Net other = new SocketNetProvider().open(LoopbackContext.of(1, THREE_THREADS));
        DeviceMemory from = Devices.host().allocate(BYTES);
        DeviceMemory to = Devices.host().allocate(BYTES)) {
      NetListener listener = net.listen(0);
      NetSender sender = other.connect(0, withAnotherRail(listener.handle()));
      NetReceiver[] receiver = new NetReceiver[1];
      until(
          () -> {
            receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
            return sender.isConnected() && receiver[0] != null;
          });
      from.fill((byte) 7);
      try (NetMemory source = sender.register(from);
          NetMemory target = receiver[0].register(to)) {
        NetRequest receive =
            Requests.begun(
                () ->
                    receiver[0].irecv(
                        1,
                        new NetMemory[] {target},
                        new long[] {0},
                        new int[] {BYTES},
                        new int[] {0}));
        NetRequest send = Requests.begun(() -> sender.isend(source, 0, BYTES, 0));
        boolean[] ended = new boolean[2];
        until(
            () -> {
              ended[0] = ended[0] || send.test(null);
              ended[1] = ended[1] || receive.test(null);
              return ended[0] && ended[1];
            });
      }
      ByteBuffer got = ByteBuffer.allocate(BYTES);
      to.read(0, got);
      for (int at = 0; at < BYTES; at++) {
        assertEquals(7, got.get(at), "byte " + at);
      }
    }
  }
}
