package org.nccl4j.transport.net.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.connection.ConnectionLayout;

/** The signature of a step's call reaches the kernel on the other side. */
class CallNotesTest {
  private static final int WORD = ConnectionLayout.word(3);
  private static final int SIGNATURE = 0xabcd;

  private final ByteBuffer sent = words();
  private final ByteBuffer received = words();

  private static ByteBuffer words() {
    return ByteBuffer.allocate((int) ConnectionLayout.CREDIT_BYTES).order(ByteOrder.nativeOrder());
  }

  @ParameterizedTest
  @EnumSource
  void signaturesOfAllSlotsPass(CallNotes notes) {
    for (long step = 0; step < 2 * ConnectionLayout.STEPS; step++) {
      notes.write(sent, WORD, step, SIGNATURE + (int) step);
    }
    for (long step = ConnectionLayout.STEPS; step < 2 * ConnectionLayout.STEPS; step++) {
      int note = notes.read(sent, WORD, step);
      assertEquals(SIGNATURE + step, note);
      notes.write(received, WORD, step, note);
    }
    for (int at = 0; at < ConnectionLayout.CREDIT_BYTES; at++) {
      assertEquals(sent.get(at), received.get(at), "at " + at);
      boolean own = at >= WORD + ConnectionLayout.SIGNATURES && at < WORD + 128;
      assertEquals(own && sent.get(at) != 0, sent.get(at) != 0, "at " + at);
    }
  }

  @ParameterizedTest
  @EnumSource
  void sizesAreNotTouched(CallNotes notes) {
    for (long step = 0; step < ConnectionLayout.STEPS; step++) {
      notes.write(sent, 0, step, 0xffff);
    }
    assertEquals(0, sent.getLong((int) ConnectionLayout.TAIL));
    for (long step = 0; step < ConnectionLayout.STEPS; step++) {
      assertEquals(0, sent.getInt((int) ConnectionLayout.size(step)));
    }
  }

  @Test
  void theHostAcceptsWhereNothingIsSaid() {
    assertEquals(CallNotes.OTHER, CallNotes.HOST.read(sent, WORD, 0));
    CallNotes.HOST.write(received, WORD, 0, SIGNATURE);
    CallNotes.HOST.write(received, WORD, 0, CallNotes.OTHER);
    assertEquals(0, received.getShort(WORD + (int) ConnectionLayout.signature(0)));
  }

  /** A GPU says so with the first step of a call alone, and older words stay. */
  @Test
  void aStepThatIsNoFirstOneFitsNoCallOfAGpu() {
    CallNotes.GPU.write(sent, WORD, 5, SIGNATURE);
    assertEquals(CallNotes.OTHER, CallNotes.GPU.read(sent, WORD, 13));
    CallNotes.GPU.write(received, WORD, 13, CallNotes.OTHER);
    int said = received.getInt(WORD + (int) ConnectionLayout.call(13));
    assertNotEquals(0, said);
    assertNotEquals(13 / ConnectionLayout.STEPS, said & 0xffff);
  }

  @Test
  void aGpuLearnsThatNothingIsKnown() {
    CallNotes.GPU.write(received, WORD, 5, SIGNATURE);
    CallNotes.GPU.write(received, WORD, 5, 0);
    assertEquals(0, received.getInt(WORD + (int) ConnectionLayout.call(5)));
    assertEquals(CallNotes.OTHER, CallNotes.GPU.read(sent, WORD, 0));
  }
}
