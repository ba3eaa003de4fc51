package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Random;
import java.util.function.IntUnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.Progress;

/** Steps whose outcome leaves the caches: it goes to the target by streaming stores. */
@Timeout(600)
class StreamedOutcomeTest {
  private static final int SLOT = 64 << 10;
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(512, 384, SLOT);
  private static final int SHIFT = 12;
  private static final int POISON = 0x5a5a5a5a;

  private final HostDevice device = HostDevice.instance();
  private final DeviceMemory data = device.allocate(LAYOUT.dataBytes());
  private final DeviceMemory credit = device.allocate(ConnectionLayout.CREDIT_BYTES);
  private final HostMemory sent = HostMemory.of(device.allocate(SLOT));
  private final HostMemory own = HostMemory.of(device.allocate(SLOT));
  private final HostMemory target = HostMemory.of(device.allocate(SLOT + 2 * SHIFT));
  private final HostMemory scratch = HostMemory.of(device.allocate(48 << 10));
  private final SpinWait waiter =
      new SpinWait("streams", 0, Duration.ofSeconds(30), true, Progress.NONE);
  private final Connection connection = new Connection(data, credit);
  private final SendEnd sender = new SendEnd(1, connection, LAYOUT);
  private final RecvEnd receiver = new RecvEnd(0, connection, LAYOUT);
  private final long seed = Long.getLong("nccl4j.seed", 1);

  @AfterEach
  void close() {
    Stream.of(data, credit, sent, own, target, scratch).forEach(DeviceMemory::close);
  }

  private static int get(HostMemory memory, long offset) {
    return memory.window(offset).getInt(memory.index(offset));
  }

  /** Random numbers that are sent and owned; poison where the outcome comes, and around. */
  private void fill() {
    Random random = new Random(seed);
    for (int at = 0; at < SLOT; at += 4) {
      sent.window(at).putInt(sent.index(at), random.nextInt(1 << 20));
      own.window(at).putInt(own.index(at), random.nextInt(1 << 20));
    }
    target.fill((byte) POISON);
  }

  private Primitives from(Reduction reduction) {
    RecvEnd[] ends = {receiver};
    Primitives primitives =
        new SlotPrimitives(
            1,
            waiter,
            Call.NONE,
            ends,
            new SendEnd[0],
            reduction,
            4,
            scratch,
            new BufferCopies(),
            false);
    primitives.leaves(true);
    return primitives;
  }

  private void send(int bytes) {
    SendEnd[] ends = {sender};
    new SlotPrimitives(
            0, waiter, Call.NONE, new RecvEnd[0], ends, null, 4, scratch, new BufferCopies(), false)
        .send(sent, 0, bytes);
  }

  private void check(int bytes, IntUnaryOperator expected) {
    for (int at = 0; at < bytes; at += 4) {
      assertEquals(expected.applyAsInt(at), get(target, SHIFT + at), "seed " + seed + ", " + at);
    }
    assertEquals(POISON, get(target, SHIFT - 4));
    assertEquals(POISON, get(target, SHIFT + bytes));
  }

  @ParameterizedTest
  @ValueSource(ints = {4, 8188, 8192, 16384, 16388, 40_004, SLOT})
  void whatIsReceivedComesWhole(int bytes) {
    fill();
    send(bytes);
    from(null).recv(target, SHIFT, bytes);
    check(bytes, at -> get(sent, at));
  }

  @ParameterizedTest
  @ValueSource(ints = {4, 8188, 8192, 16384, 16388, 40_004, SLOT})
  void sumsComeWhole(int bytes) {
    fill();
    send(bytes);
    from(Reductions.of(DataType.INT32, RedOp.SUM, 2)).recvReduceCopy(own, 0, target, SHIFT, bytes);
    check(bytes, at -> get(own, at) + get(sent, at));
    fill();
    send(bytes);
    from(Reductions.of(DataType.INT32, RedOp.AVG, 2))
        .reduceInOrder(own, 0, target, SHIFT, bytes, Primitives.RECEIVE);
    check(bytes, at -> (get(own, at) + get(sent, at)) / 2);
  }

  @ParameterizedTest
  @ValueSource(ints = {2048, 8192, 40_004, SLOT})
  void dataGoIntoSlotsByMeasuredCopies(int bytes) {
    fill();
    assertEquals(0, sender.fills().counted(bytes));
    send(bytes);
    assertTrue(sender.fills().counted(bytes) > 0);
  }

  @ParameterizedTest
  @ValueSource(ints = {4, 1500, 8192, 16384, 16388, 40_004, SLOT})
  void whatIsSentIsKeptWhole(int bytes) {
    try (DeviceMemory otherData = device.allocate(LAYOUT.dataBytes());
        DeviceMemory otherCredit = device.allocate(ConnectionLayout.CREDIT_BYTES)) {
      Connection other = new Connection(otherData, otherCredit);
      SendEnd[] ends = {sender, new SendEnd(2, other, LAYOUT)};
      RecvEnd[] others = {new RecvEnd(0, other, LAYOUT)};
      fill();
      Primitives primitives =
          new SlotPrimitives(
              0,
              waiter,
              Call.NONE,
              new RecvEnd[0],
              ends,
              null,
              4,
              scratch,
              new BufferCopies(),
              /* ll128= */ false);
      primitives.leaves(true);
      primitives.copySend(sent, 0, target, SHIFT, bytes);
      check(bytes, at -> get(sent, at));
      from(null).recv(own, 0, bytes);
      new SlotPrimitives(
              2,
              waiter,
              Call.NONE,
              others,
              new SendEnd[0],
              null,
              4,
              scratch,
              new BufferCopies(),
              /* ll128= */ false)
          .recv(target, SHIFT, bytes);
      check(bytes, at -> get(own, at));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {4, 8192, 16388, SLOT})
  void sumsInPlaceComeWhole(int bytes) {
    fill();
    send(bytes);
    for (int at = 0; at < bytes; at += 4) {
      target.window(SHIFT + at).putInt(target.index(SHIFT + at), get(own, at));
    }
    from(Reductions.of(DataType.INT32, RedOp.SUM, 2))
        .recvReduceCopy(target, SHIFT, target, SHIFT, bytes);
    check(bytes, at -> get(own, at) + get(sent, at));
  }
}
