package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.LlPrimitives;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SlotPrimitives;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.operation.Protocol;

/**
 * One connection between two threads that do nothing else: a step is received as it was sent, by
 * each protocol and by all of them in turn, by the slots of each size, whoever is ahead. Every byte
 * tells its step and its place, so that a slot that is read too early or filled again too early
 * shows.
 *
 * <p>Shown to fail when a sender takes one slot more than it has credit for, when slots are given
 * back before they are read, and when LL's flags are not waited for.
 */
@Timeout(600)
class ConnectionStressTest {
  private static final int STEPS = 150_000;
  private static final int MOST = 1400;
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(512, 1536, 256);

  private final HostDevice device = HostDevice.instance();

  /** One end with its primitives, for one thread. */
  private final class Side {
    final HostMemory buffer = HostMemory.of(device.allocate(MOST));
    final HostMemory scratch = HostMemory.of(device.allocate(3 * MOST));
    final ByteBuffer bytes = ByteBuffer.allocate(MOST).order(ByteOrder.nativeOrder());
    final Primitives[] byProtocol = new Primitives[Protocol.values().length];

    Side(int rank, RecvEnd[] recvs, SendEnd[] sends) {
      SpinWait waiter = new SpinWait("stress", rank, Duration.ofSeconds(30), true, Progress.NONE);
      Call call = new Call(CallSignature.ofMessage(MOST), () -> "a step");
      byProtocol[Protocol.LL.ordinal()] =
          new LlPrimitives(rank, waiter, call, recvs, sends, null, 1, scratch);
      byProtocol[Protocol.LL128.ordinal()] =
          new SlotPrimitives(
              rank, waiter, call, recvs, sends, null, 1, scratch, new BufferCopies(), true);
      byProtocol[Protocol.SIMPLE.ordinal()] =
          new SlotPrimitives(
              rank, waiter, call, recvs, sends, null, 1, scratch, new BufferCopies(), false);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "LL,256",
    "LL128,1400",
    "LL128,256",
    "LL128,184",
    "LL128,56",
    "SIMPLE,256",
    "all,256",
    "all,56"
  })
  void stepsArriveWhole(String which, int most) throws Exception {
    Protocol only = which.equals("all") ? null : Protocol.valueOf(which);
    long seed = 7;
    DeviceMemory data = device.allocate(LAYOUT.dataBytes());
    DeviceMemory credit = device.allocate(ConnectionLayout.CREDIT_BYTES);
    Connection connection = new Connection(data, credit);
    SendEnd[] sends = {new SendEnd(1, connection, LAYOUT)};
    RecvEnd[] recvs = {new RecvEnd(0, connection, LAYOUT)};
    ExecutorService threads = Executors.newFixedThreadPool(2);
    Future<?> sent =
        threads.submit(
            () -> send(new Side(0, new RecvEnd[0], sends), new Random(seed), only, most));
    Future<String> received =
        threads.submit(
            () -> receive(new Side(1, recvs, new SendEnd[0]), new Random(seed), only, most));
    assertEquals("", received.get(300, TimeUnit.SECONDS));
    sent.get(300, TimeUnit.SECONDS);
    threads.shutdown();
    // Not where it fails: the other thread may still use them.
    data.close();
    credit.close();
  }

  private static Protocol protocol(Random random, Protocol only) {
    return only != null ? only : Protocol.values()[random.nextInt(Protocol.values().length)];
  }

  private static byte content(int step, int at) {
    int mixed = (step * 31 + at) * 0x9E3779B9;
    return (byte) (mixed >>> 24);
  }

  private static void send(Side side, Random random, Protocol only, int most) {
    for (int step = 0; step < STEPS; step++) {
      Protocol protocol = protocol(random, only);
      int bytes = 1 + random.nextInt(most);
      for (int at = 0; at < bytes; at++) {
        side.bytes.put(at, content(step, at));
      }
      side.buffer.write(0, side.bytes.limit(bytes).position(0));
      side.bytes.clear();
      side.byProtocol[protocol.ordinal()].send(side.buffer, 0, bytes);
    }
  }

  private static String receive(Side side, Random random, Protocol only, int most) {
    for (int step = 0; step < STEPS; step++) {
      Protocol protocol = protocol(random, only);
      int bytes = 1 + random.nextInt(most);
      side.byProtocol[protocol.ordinal()].recv(side.buffer, 0, bytes);
      side.buffer.read(0, side.bytes.limit(bytes).position(0));
      side.bytes.clear();
      for (int at = 0; at < bytes; at++) {
        if (side.bytes.get(at) != content(step, at)) {
          return "byte %d of %d of step %d by %s is wrong".formatted(at, bytes, step, protocol);
        }
      }
    }
    return "";
  }
}
