package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/**
 * Two ranks with a connection over sockets in each direction. The first dials the second through a
 * wire.
 */
final class WiredRanks<W extends RelayWire> implements AutoCloseable {
  /** Of all waits of these tests: a machine may stand still for more than a minute. */
  static final long PATIENCE_NANOS = 300_000_000_000L;

  /** Opens the wire before the port of a rank. */
  interface Opening<W> {
    W open(InetSocketAddress target) throws IOException;
  }

  final W wire;
  final Net near;
  final Net far;

  /** The first sends what the second receives, and the other way round. */
  final NetSender[] senders = new NetSender[2];

  final NetReceiver[] receivers = new NetReceiver[2];
  private final NetListener[] listeners;

  /**
   * Connects the ranks.
   *
   * @param pair whether both directions share sockets
   */
  WiredRanks(Map<String, String> settings, boolean pair, Opening<W> opening) throws IOException {
    near = new SocketNetProvider().open(LoopbackContext.of(0, settings));
    far = new SocketNetProvider().open(LoopbackContext.of(1, settings));
    listeners =
        new NetListener[] {
          pair ? near.listen(0, 1) : near.listen(0), pair ? far.listen(0, 0) : far.listen(0)
        };
    byte[] handle = listeners[1].handle();
    int port = ByteBuffer.wrap(handle).getShort(2) & 0xffff;
    wire = opening.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    ByteBuffer.wrap(handle).putShort(2, (short) wire.port());
    senders[0] = pair ? near.connect(0, 1, handle) : near.connect(0, handle);
    byte[] back = listeners[0].handle();
    senders[1] = pair ? far.connect(0, 0, back) : far.connect(0, back);
    until(this::isConnected);
  }

  private boolean isConnected() {
    boolean all = true;
    for (int side = 0; side < 2; side++) {
      all &= senders[side].isConnected();
      receivers[side] = receivers[side] == null ? listeners[side].accept() : receivers[side];
      all &= receivers[side] != null;
    }
    return all;
  }

  /** Ends listening, which is for connecting alone. */
  void closeListeners() {
    for (NetListener each : listeners) {
      each.close();
    }
  }

  /** Takes steps until they say so. */
  static void until(BooleanSupplier so) {
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (!so.getAsBoolean()) {
      assertTrue(System.nanoTime() - end < 0, "waited too long");
      Thread.yield();
    }
  }

  @Override
  public void close() throws IOException {
    near.close();
    far.close();
    wire.close();
  }
}
