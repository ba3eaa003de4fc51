package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.Progress;

/** Steps that a kernel wants a proxy to receive in its buffer, one by one. */
@Timeout(60)
class PlacingTest {
  private static final int SLOT = 32 << 10;
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(512, 384, SLOT);
  private static final int BYTES = 20_000;
  private static final int AT = 5;
  private static final byte IN_BUFFER = 1;
  private static final byte IN_SLOT = 2;
  private static final Call CALL = new Call(CallSignature.ofMessage(BYTES), () -> "a step");

  private final HostDevice device = HostDevice.instance();
  private final DeviceMemory data = device.allocate(LAYOUT.dataBytes());
  private final DeviceMemory credit = device.allocate(ConnectionLayout.CREDIT_BYTES);
  private final Connection connection = new Connection(data, credit);
  private final HostMemory target = HostMemory.of(device.memAlloc(SLOT));
  private final HostMemory message = HostMemory.of(device.allocate(SLOT));
  private final HostMemory scratch = HostMemory.of(device.allocate(SLOT));
  private final RecvEnd receiver = new RecvEnd(0, connection, LAYOUT);
  private Placing placing;
  private long step;
  private boolean inSlot;

  @BeforeEach
  void fill() {
    data.fill((byte) 0);
    credit.fill((byte) 0);
    message.fill(IN_BUFFER);
  }

  @AfterEach
  void close() {
    Stream.of(data, credit, target, message, scratch).forEach(DeviceMemory::close);
  }

  /** The proxy's turn: a step comes, to where it is wanted if it may. */
  private int come() {
    boolean wanted = placing != null && placing.wanted() == step;
    if (wanted && !inSlot) {
      assertEquals(target.address() + AT, placing.address());
      assertEquals(target.address(), placing.bufferAddress());
      assertEquals(target.size(), placing.bufferBytes());
      HostMemory.move(message.address(), placing.address(), placing.bytes());
      placing.placed(step);
    }
    AtomicWords.storeRelease(HostMemory.of(data), ConnectionLayout.TAIL, ++step);
    return 1;
  }

  private byte received(int bytes) {
    HostMemory slots = HostMemory.of(data);
    for (int i = 0; i < bytes; i++) {
      long at = LAYOUT.simple(step) + i;
      slots.window(at).put(slots.index(at), IN_SLOT);
    }
    Progress progress =
        new Progress() {
          @Override
          public int doWork() {
            return come();
          }

          @Override
          public void kernelEnded() {}
        };
    SpinWait waiter = new SpinWait("places", 0, Duration.ofSeconds(30), true, progress);
    new SlotPrimitives(
            1, waiter, CALL, new RecvEnd[] {receiver}, new SendEnd[0], null, 1, scratch, false)
        .recv(target, AT, bytes);
    byte first = target.window(0).get(target.index(0) + AT);
    assertEquals(first, target.window(0).get(target.index(0) + AT + bytes - 1));
    return first;
  }

  @Test
  void largeStepsComeToTheBufferAndOthersToTheSlot() {
    assertEquals(IN_SLOT, received(BYTES), "the proxy places nothing");
    placing = new Placing(connection);
    assertTrue(placing.wanted() < step, "wanted before it was possible");
    assertEquals(IN_BUFFER, received(BYTES));
    assertEquals(IN_SLOT, received(1000), "a copy costs less");
    inSlot = true;
    assertEquals(IN_SLOT, received(BYTES), "the message had begun to come");
    inSlot = false;
    assertEquals(IN_BUFFER, received(BYTES));
  }
}
