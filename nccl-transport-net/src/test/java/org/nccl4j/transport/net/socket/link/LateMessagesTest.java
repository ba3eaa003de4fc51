package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** Connections over which many messages have gone, where something begins to repeat. */
@Timeout(600)
class LateMessagesTest {
  private static final int UNDER_WAY = 4;
  private static final int ROUNDS = 12;

  /** Sizes below and above what is copied behind a header. */
  private static final int[] BYTES = {0, 8, 40_000, 700};

  private static final int ROOM = 40_000;

  private static NetContext context(int rank) {
    Map<String, String> settings = Map.of("NCCL_SOCKET_IFNAME", "lo");
    return new NetContext() {
      @Override
      public int rank() {
        return rank;
      }

      @Override
      public byte[] secret() {
        return new byte[16];
      }

      @Override
      public Optional<String> setting(String name) {
        return Optional.ofNullable(settings.get(name));
      }
    };
  }

  /** As if so many messages had been sent and received. */
  private static void goOnAt(NetSender sender, NetReceiver receiver, long messages)
      throws ReflectiveOperationException {
    field(sender, "begun").setLong(sender, messages);
    for (String count : List.of("begun", "headers", "arrived")) {
      field(receiver, count).setLong(receiver, messages);
    }
    for (Object end : List.of(sender, receiver)) {
      SocketLink link = (SocketLink) field(end, "link").get(end);
      assertTrue(link.enterSoon());
      link.startAt(messages);
      link.leave();
    }
  }

  private static Field field(Object of, String name) throws ReflectiveOperationException {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  @ParameterizedTest
  @ValueSource(longs = {1L << 30, 1L << 31, 1L << 32, 1L << 62})
  void messagesGoOn(long around) throws ReflectiveOperationException {
    SocketNetProvider provider = new SocketNetProvider();
    try (Net near = provider.open(context(0));
        Net far = provider.open(context(1));
        NetListener listener = far.listen(0);
        DeviceMemory source = HostDevice.instance().allocate(UNDER_WAY * ROOM);
        DeviceMemory target = HostDevice.instance().allocate(UNDER_WAY * ROOM)) {
      NetSender sender = near.connect(0, listener.handle());
      NetReceiver receiver = null;
      while (!sender.isConnected() | receiver == null) {
        receiver = receiver == null ? listener.accept() : receiver;
        Thread.yield();
      }
      goOnAt(sender, receiver, around - UNDER_WAY * ROUNDS / 2);
      NetMemory from = sender.register(source);
      NetMemory to = receiver.register(target);
      for (int round = 0; round < ROUNDS; round++) {
        byte[] data = new byte[UNDER_WAY * ROOM];
        Arrays.fill(data, (byte) (round + 1));
        source.write(0, ByteBuffer.wrap(data));
        target.fill((byte) 0);
        List<NetRequest> receives = new ArrayList<>();
        List<NetRequest> sends = new ArrayList<>();
        for (int m = 0; m < UNDER_WAY; m++) {
          long place = (long) m * ROOM;
          int bytes = BYTES[m];
          NetMemory[] memories = {to};
          NetReceiver end = receiver;
          receives.add(
              begun(
                  () ->
                      end.irecv(1, memories, new long[] {place}, new int[] {ROOM}, new int[] {7})));
          sends.add(begun(() -> sender.isend(from, place, bytes, 7)));
        }
        await(sends, receives);
        for (int m = 0; m < UNDER_WAY; m++) {
          byte[] got = new byte[ROOM];
          target.read((long) m * ROOM, ByteBuffer.wrap(got));
          byte[] expected = new byte[ROOM];
          Arrays.fill(expected, 0, BYTES[m], (byte) (round + 1));
          assertArrayEquals(expected, got, "message " + m + " of round " + round);
        }
      }
    }
  }

  private static void await(List<NetRequest> sends, List<NetRequest> receives) {
    boolean[] sent = new boolean[UNDER_WAY];
    for (int m = 0; m < UNDER_WAY; m++) {
      int[] size = new int[1];
      while (!receives.get(m).test(size)) {
        test(sends, sent);
        Thread.yield();
      }
      assertEquals(BYTES[m], size[0]);
    }
    while (!test(sends, sent)) {
      Thread.yield();
    }
  }

  private static boolean test(List<NetRequest> sends, boolean[] sent) {
    boolean all = true;
    for (int m = 0; m < UNDER_WAY; m++) {
      sent[m] = sent[m] || sends.get(m).test(null);
      all &= sent[m];
    }
    return all;
  }

  /** The request, once it could begin: not while the watch of the sockets reads. */
  private static NetRequest begun(Supplier<NetRequest> begin) {
    NetRequest request = begin.get();
    while (request == null) {
      Thread.yield();
      request = begin.get();
    }
    return request;
  }
}
