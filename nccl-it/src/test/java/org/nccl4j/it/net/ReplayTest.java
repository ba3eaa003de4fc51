package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.testkit.faults.FaultyWire;
import org.nccl4j.testkit.faults.WireFaults;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** A stranger replays a rank's recorded bytes on all open ports. */
@Timeout(600)
class ReplayTest {
  private static final int TIMES = 30;

  /** Of an id and of a handle of sockets: where the port is. */
  private static final int PORT_AT = 2;

  /** The bytes of a client's hello with its request, and of its proof, of every connection. */
  private static final int PROVED = 45 + 32;

  private final Refusals refusals = new Refusals();

  @AfterEach
  void stopListening() {
    refusals.close();
  }

  private static void until(String what, BooleanSupplier so) {
    long end = System.nanoTime() + WiredRanks.PATIENCE_NANOS;
    while (!so.getAsBoolean()) {
      assertTrue(System.nanoTime() - end < 0, "waited too long for " + what);
      Thread.onSpinWait();
    }
  }

  private static byte[] withPort(byte[] place, int port) {
    byte[] other = place.clone();
    ByteBuffer.wrap(other).putShort(PORT_AT, (short) port);
    return other;
  }

  private static InetSocketAddress here(int port) {
    return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
  }

  @Test
  void aConnectionOfTheNetwork() throws Exception {
    try (Net net = new SocketNetProvider().open(LoopbackContext.of(0));
        Net friend = new SocketNetProvider().open(LoopbackContext.of(1))) {
      NetListener first = net.listen(0);
      NetListener second = net.listen(0);
      int port = ByteBuffer.wrap(first.handle()).getShort(PORT_AT) & 0xffff;
      byte[] said;
      try (FaultyWire wire = FaultyWire.before(here(port), WireFaults.none())) {
        connect(friend, first, withPort(first.handle(), wire.port()));
        said = wire.recorded().get(0);
      }
      assertTrue(said.length >= PROVED, "only " + said.length + " bytes were recorded");
      for (int time = 0; time < TIMES; time++) {
        replay(port, said, () -> assertNull(second.accept()));
      }
      assertEquals(1, refusals.ports().size(), refusals.ports().toString());
      connect(friend, second, second.handle());
    }
  }

  private static void connect(Net from, NetListener listener, byte[] handle) {
    NetSender sender = from.connect(0, handle);
    NetReceiver[] receiver = new NetReceiver[1];
    until(
        "a connection",
        () -> {
          receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
          return sender.isConnected() && receiver[0] != null;
        });
    assertNotNull(receiver[0]);
  }

  /** Says it again, and waits until the connection is ended by the other side. */
  private static void replay(int port, byte[] said, Runnable meanwhile) throws IOException {
    try (SocketChannel stranger = SocketChannel.open(here(port))) {
      stranger.configureBlocking(false);
      ByteBuffer out = ByteBuffer.wrap(said);
      ByteBuffer in = ByteBuffer.allocate(4096);
      until(
          "the end of a replayed connection",
          () -> {
            meanwhile.run();
            try {
              stranger.write(out);
              return stranger.read(in) < 0;
            } catch (IOException e) {
              return true;
            }
          });
      assertTrue(in.position() < 64, "a replayed connection is answered");
    }
  }

  @Test
  void aRankThatJoins() throws Exception {
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_SOCKET_IFNAME", "lo");
    Set<Integer> before = OwnPorts.listening();
    UniqueId id = UniqueId.create(config);
    int root = ByteBuffer.wrap(id.toBytes()).getShort(PORT_AT) & 0xffff;
    try (FaultyWire wire = FaultyWire.before(here(root), WireFaults.none())) {
      UniqueId byWire = UniqueId.fromBytes(withPort(id.toBytes(), wire.port()));
      FutureTask<Communicator> second = join(byWire, 1, config);
      until("what rank 1 says", () -> second.isDone() || hello(wire).isPresent());
      byte[] said =
          hello(wire).orElseThrow(() -> new AssertionError("rank 1 said nothing: " + second));
      for (int time = 0; time < TIMES; time++) {
        replay(root, said, () -> {});
      }
      until("the warning", () -> !refusals.ports().isEmpty());
      assertEquals(1, refusals.ports().size(), refusals.ports().toString());
      FutureTask<Communicator> first = join(id, 0, config);
      try (Communicator one = first.get(300, TimeUnit.SECONDS);
          Communicator other = second.get(300, TimeUnit.SECONDS)) {
        for (int port : OwnPorts.listening()) {
          if (!before.contains(port) && port != wire.port()) {
            replay(port, said, () -> {});
          }
        }
        assertSum(one, other);
      }
    }
  }

  private static FutureTask<Communicator> join(UniqueId id, int rank, CommunicatorConfig config) {
    FutureTask<Communicator> task =
        new FutureTask<>(() -> Communicator.initRank(2, id, rank, Devices.host(), config));
    Thread thread = new Thread(task, "joins as " + rank);
    thread.setDaemon(true);
    thread.start();
    return task;
  }

  /**
   * What a rank said that has introduced itself; a rank whose first attempt is late dials again.
   */
  private static Optional<byte[]> hello(FaultyWire wire) {
    return wire.recorded().stream().filter(ReplayTest::saysHello).findFirst();
  }

  private static boolean saysHello(byte[] recorded) {
    if (recorded.length < PROVED + Integer.BYTES) {
      return false;
    }
    int length = ByteBuffer.wrap(recorded).getInt(PROVED);
    return recorded.length >= PROVED + Integer.BYTES + 1 + length;
  }

  private static void assertSum(Communicator... communicators) {
    DeviceStream[] streams = new DeviceStream[communicators.length];
    DeviceMemory[] data = new DeviceMemory[communicators.length];
    for (int rank = 0; rank < streams.length; rank++) {
      streams[rank] = communicators[rank].device().createStream();
      data[rank] = Devices.host().allocate(1);
      data[rank].write(0, ByteBuffer.wrap(new byte[] {(byte) (rank + 1)}));
      communicators[rank].allReduce(
          data[rank], data[rank], 1, DataType.INT8, RedOp.SUM, streams[rank]);
    }
    for (int rank = 0; rank < streams.length; rank++) {
      streams[rank].synchronize();
      ByteBuffer sum = ByteBuffer.allocate(1);
      data[rank].read(0, sum);
      assertEquals(3, sum.get(0));
      data[rank].close();
      streams[rank].close();
    }
  }
}
