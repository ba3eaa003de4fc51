package org.nccl4j.testkit;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * The protocol Simple, as the package {@code org.nccl4j.device.kernel} describes it, a step at a
 * time and without waiting.
 */
final class Steps {
  private static final int WORDS = 1000;

  private final ConnectionLayout layout;
  private final Connection connection;

  Steps(ConnectionLayout layout, Connection connection) {
    this.layout = layout;
    this.connection = connection;
  }

  /** Sends a step, if its slot is free. */
  boolean send(long step) {
    if (word(connection.credit(), ConnectionLayout.HEAD) <= step - ConnectionLayout.STEPS) {
      return false;
    }
    VarHandle.acquireFence();
    connection.data().write(layout.simple(step), payload(step));
    VarHandle.releaseFence();
    setWord(connection.data(), ConnectionLayout.TAIL, step + 1);
    return true;
  }

  /** Receives a step, if it has come, and gives its slot back. */
  boolean receive(long step) {
    if (word(connection.data(), ConnectionLayout.TAIL) <= step) {
      return false;
    }
    VarHandle.acquireFence();
    ByteBuffer received = ByteBuffer.allocate(WORDS * Long.BYTES);
    connection.data().read(layout.simple(step), received);
    Expect.that(
        Arrays.equals(payload(step).array(), received.array()),
        "step %d has other bytes than were sent",
        step);
    VarHandle.releaseFence();
    setWord(connection.credit(), ConnectionLayout.HEAD, step + 1);
    return true;
  }

  private static ByteBuffer payload(long step) {
    ByteBuffer payload = ByteBuffer.allocate(WORDS * Long.BYTES);
    for (int word = 0; word < WORDS; word++) {
      payload.putLong(word * Long.BYTES, step * 0x9e3779b97f4a7c15L + word);
    }
    return payload;
  }

  private static long word(DeviceMemory memory, long offset) {
    ByteBuffer word = ByteBuffer.allocateDirect(Long.BYTES).order(ByteOrder.nativeOrder());
    memory.read(offset, word);
    return word.getLong(0);
  }

  private static void setWord(DeviceMemory memory, long offset, long value) {
    ByteBuffer word = ByteBuffer.allocateDirect(Long.BYTES).order(ByteOrder.nativeOrder());
    memory.write(offset, word.putLong(0, value));
  }
}
