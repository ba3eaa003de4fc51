package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.Progress;

/**
 * A sender of small steps that is ahead by all slots. It takes the lines of its next slot early,
 * which must not touch what the receiver has yet to read.
 */
@Timeout(600)
class SmallStepsAheadTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(2048, 2048, 4096);
  private static final int MOST = 1080;
  private static final Call CALL = new Call((short) 7, () -> "a call");

  private final HostDevice device = HostDevice.instance();
  private final DeviceMemory data = device.allocate(LAYOUT.dataBytes());
  private final DeviceMemory credit = device.allocate(ConnectionLayout.CREDIT_BYTES);
  private final HostMemory source = HostMemory.of(device.allocate(MOST));
  private final HostMemory target = HostMemory.of(device.allocate(MOST));
  private final Connection connection = new Connection(data, credit);
  private final SendEnd sender = new SendEnd(1, connection, LAYOUT);
  private final RecvEnd receiver = new RecvEnd(0, connection, LAYOUT);
  private final SpinWait waiter =
      new SpinWait("ahead", 0, Duration.ofSeconds(30), true, Progress.NONE);

  /** The bytes of the steps under way. */
  private final Deque<Integer> underWay = new ArrayDeque<>();

  private int sent;
  private int received;

  @AfterEach
  void close() {
    Stream.of(data, credit, source, target).forEach(DeviceMemory::close);
  }

  private boolean send(int bytes) {
    source.fill((byte) (sent + 1));
    boolean did = sender.sendSmallNow(source, 0, bytes, CALL);
    if (did) {
      sender.takeNext(bytes, CALL);
      sent++;
      underWay.add(bytes);
    }
    return did;
  }

  private void receive() {
    int bytes = underWay.remove();
    target.fill((byte) 0);
    receiver.recvSmall(waiter, CALL, target, 0, bytes);
    received++;
    for (int at = 0; at < bytes; at++) {
      int value = target.window(at).get(target.index(at));
      assertEquals((byte) received, value, "step " + received + ", byte " + at + " of " + bytes);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 56, 57, 128, 184, 185, 512, MOST})
  void allSlotsHoldTheirSteps(int bytes) {
    for (int round = 0; round < 3; round++) {
      while (send(bytes)) {
        assertTrue(underWay.size() <= Ll128Slots.count(bytes));
      }
      assertEquals(Ll128Slots.count(bytes), underWay.size());
      while (!underWay.isEmpty()) {
        receive();
      }
    }
  }

  /** The stores of a step to another peer would have to wait for these lines. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void onlyASenderToOnePeerTakesTheNextLines(int peers) {
    try (DeviceMemory otherData = device.allocate(LAYOUT.dataBytes());
        DeviceMemory otherCredit = device.allocate(ConnectionLayout.CREDIT_BYTES)) {
      SendEnd[] ends = {sender, new SendEnd(2, new Connection(otherData, otherCredit), LAYOUT)};
      HostMemory.of(data).fill((byte) 1);
      new SlotPrimitives(
              0,
              waiter,
              CALL,
              new RecvEnd[0],
              Arrays.copyOf(ends, peers),
              null,
              1,
              source,
              new BufferCopies(),
              /* ll128= */ true)
          .send(source, 0, 512);
      int next = Ll128Slots.slot(LAYOUT, 1, 512) + Ll128Slots.LINE_BYTES;
      HostMemory slots = HostMemory.of(data);
      assertEquals(peers == 1 ? 0 : 1, slots.window(next).get(slots.index(next)));
    }
  }

  @Test
  void stepsOfAllSizesComeWhole() {
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    int[] sizes = {8, 40, 60, 128, 184, 200, 777, MOST};
    for (int turn = 0; turn < 20_000; turn++) {
      boolean sends = random.nextInt(100) < (turn / 500 % 2 == 0 ? 60 : 40);
      if (!(sends && send(sizes[random.nextInt(sizes.length)])) && !underWay.isEmpty()) {
        receive();
      }
    }
    while (!underWay.isEmpty()) {
      receive();
    }
    assertEquals(sent, received, "seed " + seed);
  }
}
