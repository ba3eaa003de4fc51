package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.LlLines;
import org.nccl4j.device.host.kernel.protocol.LlPrimitives;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SlotPrimitives;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.operation.Protocol;

/** Connections that have gone on for long, at the steps where something begins to repeat. */
@Timeout(600)
class LateStepsTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(512, 384, 256);
  private static final int BYTES = 256;
  private static final Call CALL = new Call(CallSignature.ofMessage(BYTES), () -> "a step");

  private final HostDevice device = HostDevice.instance();
  private final DeviceMemory data = device.allocate(LAYOUT.dataBytes());
  private final DeviceMemory credit = device.allocate(ConnectionLayout.CREDIT_BYTES);
  private final Connection connection = new Connection(data, credit);
  private final SendEnd sender = new SendEnd(1, connection, LAYOUT);
  private final RecvEnd receiver = new RecvEnd(0, connection, LAYOUT);
  private final SpinWait waiter =
      new SpinWait("late", 0, Duration.ofSeconds(60), true, Progress.NONE);
  private final HostMemory scratch = HostMemory.of(device.allocate(3 * BYTES));

  @AfterEach
  void close() {
    data.close();
    credit.close();
    scratch.close();
  }

  /** Both sides have done so many steps, and all was taken. */
  private void goOnAt(long step) {
    AtomicWords.storeRelease(HostMemory.of(data), ConnectionLayout.TAIL, step);
    AtomicWords.storeRelease(HostMemory.of(credit), ConnectionLayout.HEAD, step);
    sender.goOnAt(step);
    receiver.goOnAt(step);
  }

  private Primitives primitives(Protocol protocol, boolean sends) {
    RecvEnd[] recvs = sends ? new RecvEnd[0] : new RecvEnd[] {receiver};
    SendEnd[] to = sends ? new SendEnd[] {sender} : new SendEnd[0];
    return protocol == Protocol.LL
        ? new LlPrimitives(0, waiter, CALL, recvs, to, null, 1, scratch)
        : new SlotPrimitives(
            0,
            waiter,
            CALL,
            recvs,
            to,
            null,
            1,
            scratch,
            new BufferCopies(),
            protocol == Protocol.LL128);
  }

  @ParameterizedTest
  @ValueSource(longs = {1L << 22, 1L << 30, 1L << 31, 1L << 32, 1L << 48, 1L << 62})
  void everyProtocolGoesOn(long around) throws Exception {
    for (Protocol only : new Protocol[] {Protocol.LL, Protocol.LL128, Protocol.SIMPLE, null}) {
      long first = around - 100;
      goOnAt(first);
      ExecutorService thread = Executors.newSingleThreadExecutor();
      Future<?> sent = thread.submit(() -> send(first, only));
      assertEquals("", receive(first, only));
      sent.get(300, TimeUnit.SECONDS);
      thread.shutdown();
    }
  }

  private static Protocol protocol(long step, Protocol only) {
    return only != null ? only : Protocol.values()[(int) (step & 0xffff) * 7 % 11 % 3];
  }

  private void send(long first, Protocol only) {
    HostMemory buffer = HostMemory.of(device.allocate(BYTES));
    for (long step = first; step < first + 200; step++) {
      int bytes = 1 + (int) (step & 0xffff) * 13 % BYTES;
      buffer.fill((byte) step);
      primitives(protocol(step, only), true).send(buffer, 0, bytes);
    }
    buffer.close();
  }

  private String receive(long first, Protocol only) {
    HostMemory buffer = HostMemory.of(device.allocate(BYTES));
    for (long step = first; step < first + 200; step++) {
      int bytes = 1 + (int) (step & 0xffff) * 13 % BYTES;
      buffer.fill((byte) ~step);
      primitives(protocol(step, only), false).recv(buffer, 0, bytes);
      for (int at = 0; at < BYTES; at++) {
        byte wanted = (byte) (at < bytes ? step : ~step);
        if (buffer.window(at).get(buffer.index(at)) != wanted) {
          return "byte %d of %d of step %d".formatted(at, bytes, step);
        }
      }
    }
    buffer.close();
    return "";
  }

  /** Words that lie in slots since the steps in flags repeated must never be taken for new ones. */
  @Test
  void staleLinesAreGoneWhenFlagsRepeatWhateverTheProtocolThen() {
    long epoch = 1L << 22;
    int slots = ConnectionLayout.STEPS;
    HostMemory buffer = HostMemory.of(device.allocate(BYTES));
    goOnAt(3 * epoch);
    for (int step = 0; step < slots; step++) {
      primitives(Protocol.LL, true).send(buffer, 0, BYTES);
      primitives(Protocol.LL, false).recv(buffer, 0, BYTES);
    }
    goOnAt(4 * epoch - slots);
    for (int step = 0; step < slots; step++) {
      primitives(Protocol.SIMPLE, true).send(buffer, 0, BYTES);
      primitives(Protocol.SIMPLE, false).recv(buffer, 0, BYTES);
    }
    for (int step = 0; step < slots; step++) {
      assertFalse(LlLines.isComplete(receiver, 4, receiver.llFlag(CALL)), "step " + step);
      primitives(Protocol.SIMPLE, true).send(buffer, 0, BYTES);
      primitives(Protocol.SIMPLE, false).recv(buffer, 0, BYTES);
    }
    buffer.close();
  }

  @Test
  void flagsAreNeverZero() {
    for (int bits : new int[] {0, 22, 30, 31, 32, 48, 62}) {
      for (long step = (1L << bits) - 9; step < (1L << bits) + 9; step++) {
        assertFalse(LlLines.flag(step, CALL) == 0 || CALL.flag(step) == 0, "step " + step);
      }
    }
  }
}
