package org.nccl4j.it.nvls;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * A thread in the place of a kernel, on a channel of a connection that proxies carry: fills slots
 * with steps of random sizes, or empties and checks them. The fake's devices see memory where the
 * process does.
 */
final class SlotKernel {
  static final long PATIENCE_SECONDS = 90;

  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private final ConnectionLayout layout;
  private final ByteBuffer data;
  private final ByteBuffer credit;
  private final int channel;
  private final Random random;
  private final BooleanSupplier over;

  /**
   * On one end.
   *
   * @param seed the same at both ends
   * @param over whether to end, as an abort has it end
   */
  SlotKernel(
      ConnectionLayout layout, Connection connection, int channel, int seed, BooleanSupplier over) {
    this.layout = layout;
    this.data = view(connection.data());
    this.credit = view(connection.credit());
    this.channel = channel;
    this.random = new Random(31L * seed + channel);
    this.over = over;
  }

  private static ByteBuffer view(DeviceMemory memory) {
    DeviceMemory host = HostDevice.instance().wrap(memory.address(), memory.size());
    return HostDevice.view(host, 0, (int) memory.size());
  }

  private int part() {
    return layout.simpleSlotBytes() / ConnectionLayout.CHANNELS;
  }

  private int size() {
    return switch (random.nextInt(4)) {
      case 0 -> part();
      case 1 -> 1 + random.nextInt(16);
      default -> 1 + random.nextInt(part());
    };
  }

  /** Sends. */
  void fill(int steps) {
    int word = ConnectionLayout.word(channel);
    for (int step = 0; step < steps; step++) {
      await(credit, word, step - ConnectionLayout.STEPS + 1L);
      if (over.getAsBoolean()) {
        return;
      }
      byte[] contents = new byte[size()];
      random.nextBytes(contents);
      data.put((int) layout.simple(step) + channel * part(), contents);
      data.putInt(word + (int) ConnectionLayout.size(step), contents.length);
      LONG.setRelease(data, word, step + 1L);
    }
  }

  /** Receives. */
  void empty(int steps) {
    int word = ConnectionLayout.word(channel);
    for (int step = 0; step < steps; step++) {
      await(data, word, step + 1L);
      byte[] expected = new byte[size()];
      random.nextBytes(expected);
      byte[] seen = new byte[expected.length];
      data.get((int) layout.simple(step) + channel * part(), seen);
      require(Arrays.equals(expected, seen), "step %d of channel %d", step, channel);
      LONG.setRelease(credit, word, step + 1L);
    }
  }

  private void await(ByteBuffer words, int at, long least) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    while ((long) LONG.getAcquire(words, at) < least && !over.getAsBoolean()) {
      require(System.nanoTime() - end < 0, "%d steps do not come", least);
      Thread.yield();
    }
  }

  static void require(boolean right, String what, Object... arguments) {
    if (!right) {
      throw new AssertionError(what.formatted(arguments));
    }
  }
}
