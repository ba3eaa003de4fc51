package org.nccl4j.transport.net.socket;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.api.wire.tls.TlsFiles;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.transport.net.socket.link.DataSocketCount;
import org.nccl4j.transport.net.socket.link.SharedSocketThreads;
import org.nccl4j.transport.net.socket.link.SocketSender;
import org.nccl4j.transport.net.socket.link.SocketWatch;

/** Connections over interfaces of different speeds. */
@Timeout(600)
class UnequalRailsTest {
  private static final DataSocketCount THREE = new DataSocketCount(3, 3, false);
  private static final boolean LISTED = true;
  private static final int BYTES = 3 << 20;
  private static final int MESSAGES = 40;

  private static Nic nic(String name, int last, int megabits, boolean known) {
    try {
      return new Nic(
          name, InetAddress.getByAddress(new byte[] {127, 0, 0, (byte) last}), megabits, "", known);
    } catch (UnknownHostException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void slowerInterfacesThatAreListedAreRailsToo() {
    Nic fast = nic("a", 1, 100_000, true);
    Nic same = nic("b", 2, 100_000, true);
    Nic slow = nic("c", 3, 25_000, true);
    Nic management = nic("d", 4, 1_000, true);
    List<Nic> all = List.of(fast, same, slow, management);
    SocketRails rails = SocketRails.of(same, all, LISTED);
    assertEquals(
        List.of(same.address(), fast.address(), slow.address(), management.address()),
        rails.addresses());
    assertEquals(List.of(8, 8, 2, 1), rails.speeds());
    assertEquals(3, rails.count(), "the last would take part in nothing");
    assertEquals(List.of(2, 8, 8, 1), SocketRails.of(slow, all, LISTED).speeds());
  }

  /** It may be there for management or storage. */
  @Test
  void anInterfaceOfAnotherSpeedOnlyTakesOverUnlessItIsListed() {
    Nic fast = nic("a", 1, 100_000, true);
    Nic same = nic("b", 2, 100_000, true);
    Nic slow = nic("c", 3, 25_000, true);
    List<Nic> all = List.of(fast, same, slow);
    SocketRails rails = SocketRails.of(fast, all, false);
    assertEquals(2, rails.count());
    assertEquals(List.of(fast.address(), same.address(), slow.address()), rails.addresses());
    assertEquals(1, SocketRails.of(slow, all, false).count());
    assertTrue(new InterfaceFilter("=a,c", "").lists());
    assertFalse(new InterfaceFilter("^docker", "").lists());
    assertFalse(new InterfaceFilter("", "").lists());
  }

  /** It may be far slower than assumed. */
  @Test
  void anInterfaceOfUnknownSpeedIsNoRailBesideOthers() {
    Nic fast = nic("a", 1, 25_000, true);
    Nic unknown = nic("b", 2, 10_000, false);
    Nic another = nic("c", 3, 10_000, false);
    List<Nic> all = List.of(fast, unknown, another);
    assertEquals(1, SocketRails.of(fast, all, LISTED).count());
    assertEquals(
        2, SocketRails.of(another, all, LISTED).count(), "those are as fast, as far as is known");
  }

  private static void until(BooleanSupplier so) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(300);
    while (!so.getAsBoolean()) {
      assertTrue(System.nanoTime() - end < 0, "waited too long");
      Thread.onSpinWait();
    }
  }

  /** A request that is begun as soon as the connection takes one. */
  private static NetRequest begun(Supplier<NetRequest> beginning) {
    NetRequest[] request = new NetRequest[1];
    until(
        () -> {
          request[0] = beginning.get();
          return request[0] != null;
        });
    return request[0];
  }

  @Test
  void messagesArriveWhole() {
    Protection plain = new Protection(new byte[16], false, false, NetworkTls.of(TlsFiles.NONE));
    Nic fast = nic("lo", 1, 100_000, true);
    Nic slow = nic("lo", 2, 40_000, true);
    SocketSettings settings =
        new SocketSettings(
            new InterfaceFilter("", ""), PortRange.ANY, Optional.empty(), Optional.empty());
    SharedSocketThreads threads = new SharedSocketThreads(2);
    SocketWatch watch = new SocketWatch(Duration.ZERO, Duration.ZERO, () -> {}, () -> null);
    SocketPort port = SocketPort.open(plain, settings, List.of(fast, slow));
    assertTrue(port.expect());
    SocketRails rails = SocketRails.of(fast, List.of(fast, slow), LISTED);
    SocketListener listener = new SocketListener(port, THREE, threads, rails, false, watch);
    SocketDialer dialer =
        new SocketDialer(
            SocketHandle.fromBytes(listener.handle()), plain, false, watch, new RailTrials());
    SocketSender sender = new SocketSender(dialer, THREE, threads);
    NetReceiver[] receiver = new NetReceiver[1];
    try (DeviceMemory out = HostDevice.instance().allocate(BYTES);
        DeviceMemory in = HostDevice.instance().allocate(BYTES)) {
      until(
          () -> {
            boolean ready = sender.isConnected();
            receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
            return ready && receiver[0] != null;
          });
      // Of the lanes two lead to the fast interface, and share its speed.
      assertArrayEquals(new int[] {4 << 16, 3 << 16, 4 << 16}, dialer.shares());
      NetMemory from = sender.register(out);
      NetMemory to = receiver[0].register(in);
      Random random = new Random(7);
      for (int message = 0; message < MESSAGES; message++) {
        byte[] data = new byte[1 + random.nextInt(BYTES)];
        random.nextBytes(data);
        out.write(0, ByteBuffer.wrap(data));
        NetRequest receive =
            begun(
                () ->
                    receiver[0].irecv(
                        1, new NetMemory[] {to}, new long[] {0}, new int[] {BYTES}, new int[] {1}));
        NetRequest send = begun(() -> sender.isend(from, 0, data.length, 1));
        boolean[] done = new boolean[2];
        until(
            () -> {
              done[0] = done[0] || send.test(null);
              done[1] = done[1] || receive.test(null);
              return done[0] && done[1];
            });
        ByteBuffer come = ByteBuffer.allocate(data.length);
        in.read(0, come);
        assertArrayEquals(data, come.array(), "message " + message);
      }
    } finally {
      sender.close();
      listener.closeAll();
      watch.close();
      threads.close();
    }
  }
}
