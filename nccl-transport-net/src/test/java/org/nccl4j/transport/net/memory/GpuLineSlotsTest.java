package org.nccl4j.transport.net.memory;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.connection.ConnectionLayout;

/** Lines of LL are packed into a message, and are the same lines at the other end. */
class GpuLineSlotsTest {
  private static final int CHANNEL = 3;
  private static final int PART = 512;
  private static final int SIMPLE_PART = 1024;
  private static final int SIGNATURE = 0xfedc;
  private static final ConnectionLayout LAYOUT =
      new ConnectionLayout(
          PART * ConnectionLayout.CHANNELS, 128 * 64, SIMPLE_PART * ConnectionLayout.CHANNELS);

  private final ByteBuffer here = side();
  private final ByteBuffer there = side();
  private final GpuLineSlots sender = new GpuLineSlots(LAYOUT, here, CHANNEL, LineMark.NOTE);
  private final GpuLineSlots receiver = new GpuLineSlots(LAYOUT, there, CHANNEL, LineMark.NOTE);
  private final Random random = new Random(5);

  private static ByteBuffer side() {
    return ByteBuffer.allocateDirect((int) LAYOUT.dataBytes()).order(ByteOrder.nativeOrder());
  }

  private static int size(int bytes) {
    return ConnectionLayout.LINES | bytes << ConnectionLayout.LINES_SIZE | SIGNATURE;
  }

  private static int lineAt(long step, int line) {
    return (int) LAYOUT.ll(step) + CHANNEL * PART + line * 16;
  }

  private static int messageAt(long step) {
    return (int) LAYOUT.simple(step) + CHANNEL * SIMPLE_PART;
  }

  /** As a GPU's kernel does (storeLine in memory.cuh). */
  private void store(long step, int line, long data) {
    int at = lineAt(step, line);
    here.putInt(at, (int) data).putInt(at + 4, (int) step + 1);
    here.putInt(at + 8, (int) (data >>> 32)).putInt(at + 12, (int) step + 1 + (SIGNATURE << 16));
  }

  /** What the network does with a packed message. */
  private void carry(long step, int bytes) {
    byte[] message = new byte[bytes];
    here.get(messageAt(step), message);
    there.put(messageAt(step), message);
  }

  private static byte[] lines(ByteBuffer side, long step, int lines) {
    byte[] bytes = new byte[lines * 16];
    side.get(lineAt(step, 0), bytes);
    return bytes;
  }

  /** The last step is one whose flags begin anew. */
  @ParameterizedTest
  @ValueSource(longs = {0, 7, 1234, (1L << 31) - 1, (1L << 32) - 2, (1L << 32) - 1, 1L << 40})
  void linesOfEverySizeAreTheSameAtTheOtherEnd(long step) {
    for (int bytes = 0; bytes <= PART / 2; bytes++) {
      int lines = (bytes + 7) / 8;
      for (int line = 0; line < lines; line++) {
        assertFalse(sender.pack(step, size(bytes)), "line " + line + " has not come");
        store(step, line, random.nextLong());
      }
      assertTrue(sender.pack(step, size(bytes)));
      assertEquals(8 + lines * 8, sender.bytes(size(bytes)));
      carry(step, sender.bytes(size(bytes)));
      receiver.unpack(step, sender.bytes(size(bytes)));
      assertArrayEquals(lines(here, step, lines), lines(there, step, lines));
      for (int at = lineAt(step, 0); at < lineAt(step, PART / 16); at++) {
        here.put(at, (byte) 0);
      }
    }
  }

  @Test
  void aLineWithOneFlagAloneHasNotCome() {
    store(8, 0, 1);
    here.putInt(lineAt(8, 0) + 12, 9);
    assertFalse(sender.pack(8, size(8)), "of another call");
    store(8, 0, 1);
    here.putInt(lineAt(8, 0) + 4, 1);
    assertFalse(sender.pack(8, size(8)), "of an earlier step");
    store(8, 0, 1);
    assertTrue(sender.pack(8, size(8)));
  }

  @Test
  void theFlagsOfOtherStepsAreRefused() {
    for (int line = 0; line < PART / 16; line++) {
      store(16, line, line);
    }
    assertFalse(sender.pack(8, size(8)));
    assertFalse(sender.pack(24, size(8)));
    assertTrue(sender.pack(16, size(PART / 2)));
  }

  /** A slot keeps lines of calls that were larger than all since. */
  @Test
  void aLineOfTheSameFlagsLongAgoIsGone() {
    long old = 40;
    store(old, 1, 77);
    long same = old + (1L << 32);
    boolean cleared = false;
    for (long step = old + 8; step < same && !cleared; step += 1L << 30) {
      sender.emptied(step);
    }
    assertTrue(here.getInt(lineAt(old, 1) + 4) != 0, "it is cleared rarely");
    for (long step = (1L << 31) - 8; step < 1L << 31; step++) {
      sender.emptied(step);
    }
    store(same, 0, 1);
    assertFalse(sender.pack(same, size(16)));
    assertEquals(0, here.getLong(lineAt(old, 1)));
    store(same, 1, 1);
    assertTrue(sender.pack(same, size(16)));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 4, 12, 8 + PART / 2 + 8, SIMPLE_PART})
  void aMessageThatCannotBeLinesIsRefused(int bytes) {
    RemoteException e = assertThrows(RemoteException.class, () -> receiver.unpack(0, bytes));
    assertTrue(e.getMessage().contains("message of " + bytes + " bytes"), e.getMessage());
    assertEquals(0, there.getLong(lineAt(0, 0)));
  }

  @Test
  void otherChannelsSlotsAreLeftAlone() {
    int lines = PART / 16;
    for (int line = 0; line < lines; line++) {
      store(2, line, -1);
    }
    assertTrue(sender.pack(2, size(PART / 2)));
    carry(2, sender.bytes(size(PART / 2)));
    receiver.unpack(2, sender.bytes(size(PART / 2)));
    for (int at = 0; at < there.capacity(); at++) {
      boolean line = at >= lineAt(2, 0) && at < lineAt(2, lines);
      boolean message = at >= messageAt(2) && at < messageAt(2) + SIMPLE_PART;
      assertTrue(line || message || there.get(at) == 0, "at " + at);
    }
  }

  /** A kernel would take a line that has the step's half alone for one of another call. */
  @Test
  void aLineWithTheStepsHalfHasTheCallsToo() throws InterruptedException {
    int steps = 400_000;
    int slots = ConnectionLayout.STEPS;
    for (int slot = 0; slot < slots; slot++) {
      there.putLong(messageAt(slot), SIGNATURE).putLong(messageAt(slot) + 8, 0);
    }
    AtomicReference<String> torn = new AtomicReference<>();
    AtomicBoolean over = new AtomicBoolean();
    Thread kernel =
        new Thread(
            () -> {
              while (!over.get()) {
                for (int slot = 0; slot < slots; slot++) {
                  int found = (int) (StepWords.loadAcquire(there, lineAt(slot, 0)) >>> 32);
                  int call = (int) (StepWords.loadAcquire(there, lineAt(slot, 0) + 8) >>> 32);
                  if (found != 0 && call - found - (SIGNATURE << 16) < 0) {
                    torn.set("step %x has the call's half of %x".formatted(found, call));
                  }
                }
              }
            });
    kernel.start();
    for (long step = 0; step < steps; step++) {
      receiver.unpack(step, 16);
    }
    over.set(true);
    kernel.join();
    assertNull(torn.get());
  }
}
