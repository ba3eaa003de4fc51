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
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.Progress;

/** Steps that a kernel wants a proxy to receive in its buffer, one by one. */
@Timeout(600)
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
  private final HostMemory target = HostMemory.of(device.memAlloc(64 * BYTES));
  private final HostMemory message = HostMemory.of(device.allocate(SLOT));
  private final HostMemory scratch = HostMemory.of(device.allocate(SLOT));
  private final RecvEnd receiver = new RecvEnd(0, connection, LAYOUT);
  private Placing placing;
  private long step;
  private boolean inSlot;

  /** Steps that the kernel expects before it receives one. */
  private int expected;

  /** Steps that were received; each has a place of its own. */
  private int calls;

  /** Steps that come before the kernel looks for the first. */
  private int atOnce = 1;

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

  /** The proxy's turn: steps come, to where they are wanted if they may. */
  private int come() {
    for (int each = 0; each < atOnce; each++) {
      if (placing != null && placing.wanted() >= step && placing.isWanted(step) && !inSlot) {
        assertEquals(target, placing.memory(step));
        HostMemory.move(message.address(), placing.address(step), placing.bytes(step));
        placing.placed(step);
      }
      AtomicWords.storeRelease(HostMemory.of(data), ConnectionLayout.TAIL, ++step);
    }
    return 1;
  }

  private static int at(int call) {
    return AT + call * BYTES;
  }

  private byte received(int bytes) {
    HostMemory.of(data).slice(LAYOUT.simple(0), (long) ConnectionLayout.STEPS * SLOT).fill(IN_SLOT);
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
    SlotPrimitives primitives =
        new SlotPrimitives(
            1,
            waiter,
            CALL,
            new RecvEnd[] {receiver},
            new SendEnd[0],
            null,
            1,
            scratch,
            new BufferCopies(),
            false);
    for (int each = 0; each < expected && primitives.mayExpect(); each++) {
      primitives.expect(each % 2 == 0 ? target : null, at(calls + each), bytes);
    }
    int at = at(calls++);
    primitives.recv(target, at, bytes);
    byte first = target.window(0).get(target.index(0) + at);
    assertEquals(first, target.window(0).get(target.index(0) + at + bytes - 1));
    return first;
  }

  @Test
  void largeStepsComeToTheBufferAndOthersToTheSlot() {
    assertEquals(IN_SLOT, received(BYTES), "the proxy places nothing");
    placing = new Placing(connection, 16 << 10, /* registered= */ false, /* awaited= */ false);
    assertTrue(placing.wanted() < step, "wanted before it was possible");
    assertEquals(IN_BUFFER, received(BYTES));
    assertEquals(IN_SLOT, received(1000), "a copy costs less");
    inSlot = true;
    assertEquals(IN_SLOT, received(BYTES), "the message had begun to come");
    inSlot = false;
    assertEquals(IN_BUFFER, received(BYTES));
  }

  @Test
  void registeredMemoryAlone() {
    placing = new Placing(connection, 16 << 10, /* registered= */ true, /* awaited= */ false);
    assertEquals(IN_SLOT, received(BYTES));
    try (RegisteredMemory mine = RegisteredMemory.of(target)) {
      assertTrue(mine.isOpen());
      assertEquals(IN_BUFFER, received(BYTES));
    }
    assertEquals(IN_SLOT, received(BYTES));
  }

  /** Of the steps that come at once, those that were expected come to the buffer. */
  @Test
  void stepsThatAreExpectedComeToTheBufferAhead() {
    placing = new Placing(connection, 16 << 10, /* registered= */ false, /* awaited= */ false);
    assertEquals(IN_BUFFER, received(BYTES));
    atOnce = 8;
    expected = 100;
    assertEquals(IN_BUFFER, received(BYTES));
    expected = 0;
    for (int ahead = 1; ahead < 8; ahead++) {
      assertEquals(ahead % 2 == 0 ? IN_BUFFER : IN_SLOT, received(BYTES), "step " + ahead);
    }
    assertEquals(IN_BUFFER, received(BYTES), "expected eight steps ahead");
    for (int later = 9; later < 16; later++) {
      assertEquals(IN_SLOT, received(BYTES), "never expected");
    }
    assertEquals(IN_BUFFER, received(BYTES), "wanted while it was awaited");
  }
}
