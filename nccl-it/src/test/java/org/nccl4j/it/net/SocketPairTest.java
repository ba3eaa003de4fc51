package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.it.net.WiredRanks.until;

import java.nio.ByteBuffer;
import java.util.Arrays;
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
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** Both directions between two ranks over one socket, where both ranks say that there are two. */
@Timeout(600)
class SocketPairTest {
  private static final int BYTES = 1 << 20;

  /** One rank: its network, and its two connections with the other. */
  private static final class Rank implements AutoCloseable {
    final Net net;
    final NetListener listener;
    final DeviceMemory memory = Devices.host().allocate(2 * BYTES);
    private final int peer;
    private final boolean pairs;
    NetSender sender;
    NetReceiver receiver;

    Rank(int rank, boolean pairs, String threads) {
      this.peer = 1 - rank;
      this.pairs = pairs;
      net =
          new SocketNetProvider()
              .open(LoopbackContext.of(rank, Map.of("NCCL_SOCKET_NTHREADS", threads)));
      listener = pairs ? net.listen(0, peer) : net.listen(0);
    }

    void connect(Rank other) {
      byte[] handle = other.listener.handle();
      sender = pairs ? net.connect(0, peer, handle) : net.connect(0, handle);
    }

    boolean isConnected() {
      if (receiver == null) {
        receiver = listener.accept();
      }
      return sender.isConnected() & receiver != null;
    }

    @Override
    public void close() {
      net.close();
      memory.close();
    }
  }

  private static void connect(Rank first, Rank second) {
    first.connect(second);
    second.connect(first);
    boolean[] done = new boolean[2];
    until(
        () -> {
          done[0] = done[0] || first.isConnected();
          done[1] = done[1] || second.isConnected();
          return done[0] && done[1];
        });
    first.listener.close();
    second.listener.close();
  }

  private static void move(Rank from, Rank to, int bytes, byte mark) {
    byte[] data = new byte[bytes];
    Arrays.fill(data, mark);
    from.memory.write(0, ByteBuffer.wrap(data));
    NetMemory target = to.receiver.register(to.memory);
    NetMemory source = from.sender.register(from.memory);
    NetRequest receive =
        Requests.begun(
            () ->
                to.receiver.irecv(
                    1,
                    new NetMemory[] {target},
                    new long[] {BYTES},
                    new int[] {bytes},
                    new int[1]));
    NetRequest send = Requests.begun(() -> from.sender.isend(source, 0, bytes, 0));
    int[] size = new int[1];
    boolean[] done = new boolean[2];
    until(
        () -> {
          done[0] = done[0] || send.test(null);
          done[1] = done[1] || receive.test(size);
          return done[0] && done[1];
        });
    assertEquals(bytes, size[0]);
    ByteBuffer arrived = ByteBuffer.allocate(bytes);
    to.memory.read(BYTES, arrived);
    assertEquals(ByteBuffer.wrap(data), arrived.rewind());
  }

  private static void exchange(Rank first, Rank second) {
    byte mark = 1;
    for (int bytes : new int[] {8, 0, 1000, 5000, BYTES}) {
      move(first, second, bytes, mark++);
      move(second, first, bytes, mark++);
    }
  }

  private static boolean shares(Rank rank) {
    return rank.sender.toString().equals(rank.receiver.toString());
  }

  @Test
  void bothDirectionsShareASocket() {
    try (Rank low = new Rank(0, true, "0");
        Rank high = new Rank(1, true, "0")) {
      connect(low, high);
      assertTrue(shares(low) && shares(high), low.sender + ", " + low.receiver);
      exchange(low, high);
    }
  }

  @Test
  void aRankThatKnowsOfNoPairHasASocketForEachDirection() {
    for (int pairing = 0; pairing < 2; pairing++) {
      try (Rank low = new Rank(0, pairing == 0, "0");
          Rank high = new Rank(1, pairing == 1, "0")) {
        connect(low, high);
        assertNotEquals(low.sender.toString(), low.receiver.toString());
        exchange(low, high);
      }
    }
  }

  @Test
  void severalSocketsAreNotShared() {
    try (Rank low = new Rank(0, true, "2");
        Rank high = new Rank(1, true, "0")) {
      connect(low, high);
      assertNotEquals(high.sender.toString(), high.receiver.toString());
      exchange(low, high);
    }
  }

  @Test
  void oneDirectionOutlivesTheOther() {
    try (Rank low = new Rank(0, true, "0");
        Rank high = new Rank(1, true, "0")) {
      connect(low, high);
      low.sender.close();
      move(high, low, 5000, (byte) 1);
      high.receiver.close();
      move(high, low, 5000, (byte) 2);
    }
  }

  @Test
  void whoHasClosedBothIsGone() {
    try (Rank low = new Rank(0, true, "0");
        Rank high = new Rank(1, true, "0")) {
      connect(low, high);
      high.receiver.close();
      high.sender.close();
      NetMemory memory = low.sender.register(low.memory);
      assertThrows(
          RemoteException.class,
          () ->
              until(
                  () -> {
                    NetRequest send = low.sender.isend(memory, 0, BYTES, 0);
                    until(() -> send.test(null));
                    return false;
                  }));
    }
  }
}
