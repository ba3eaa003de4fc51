package org.nccl4j.it.nvls;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * A thread in the place of a kernel, on a channel of a connection that proxies carry: fills slots
 * with steps of random sizes, or empties and checks them. Where LL is carried, every other step or
 * so is in LL, its lines stored in any order. The fake's devices see memory where the process does.
 */
final class SlotKernel {
  static final long PATIENCE_SECONDS = 300;

  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private static final VarHandle INT =
      MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());
  private static final long LOW = 0xffff_ffffL;

  private final ConnectionLayout layout;
  private final boolean lines;
  private final ByteBuffer data;
  private final ByteBuffer credit;
  private final int channel;
  private final Random random;
  private final BooleanSupplier over;

  /**
   * On one end.
   *
   * @param other the other end's connection; steps are in LL where both carry it
   * @param seed the same at both ends
   * @param over whether to end, as an abort has it end
   */
  SlotKernel(
      ConnectionLayout layout,
      Connection connection,
      Connection other,
      int channel,
      int seed,
      BooleanSupplier over) {
    this.layout = layout;
    this.lines = connection.lines() && other.lines();
    this.data = LaunchedMessages.view(connection.data().address(), connection.data().size());
    this.credit = LaunchedMessages.view(connection.credit().address(), connection.credit().size());
    this.channel = channel;
    this.random = new Random(31L * seed + channel);
    this.over = over;
  }

  private int part() {
    return layout.simpleSlotBytes() / ConnectionLayout.CHANNELS;
  }

  private int linePart() {
    return layout.llSlotBytes() / ConnectionLayout.CHANNELS;
  }

  private int size(int most) {
    return switch (random.nextInt(4)) {
      case 0 -> most;
      case 1 -> 1 + random.nextInt(16);
      default -> 1 + random.nextInt(most);
    };
  }

  /** A step's contents and how it goes; the same at both ends. */
  private record Step(boolean inLines, int signature, byte[] contents) {
    /** The lines' data, with what is left of the last as 0. */
    ByteBuffer padded() {
      int bytes = (contents.length + Long.BYTES - 1) / Long.BYTES * Long.BYTES;
      return ByteBuffer.wrap(Arrays.copyOf(contents, bytes)).order(ByteOrder.nativeOrder());
    }

    long flag(long step, boolean second) {
      return (step + 1 + (second ? (long) signature << 16 : 0) & LOW) << 32;
    }
  }

  private Step next() {
    boolean inLines = lines && random.nextBoolean();
    int signature = 64 + random.nextInt(60_000);
    boolean empty = inLines && random.nextInt(20) == 0;
    byte[] contents = new byte[empty ? 0 : size(inLines ? linePart() / 2 : part())];
    random.nextBytes(contents);
    return new Step(inLines, signature, contents);
  }

  /** Sends. */
  void fill(int steps) {
    int word = ConnectionLayout.word(channel);
    for (int step = 0; step < steps; step++) {
      await(credit, word, step - ConnectionLayout.STEPS + 1L);
      if (over.getAsBoolean()) {
        return;
      }
      Step next = next();
      int size = word + (int) ConnectionLayout.size(step);
      if (next.inLines()) {
        int bytes = next.contents().length;
        INT.setRelease(data, size, ConnectionLayout.LINES | bytes << 16 | next.signature());
        storeLines(step, next);
      } else {
        data.put((int) layout.simple(step) + channel * part(), next.contents());
        data.putInt(size, next.contents().length);
        LONG.setRelease(data, word, step + 1L);
      }
    }
  }

  /** Halves of lines, each with its flag, as they may come from a GPU: in any order. */
  private void storeLines(long step, Step next) {
    ByteBuffer from = next.padded();
    List<Integer> halves = new ArrayList<>();
    for (int half = 0; half < from.capacity() / Integer.BYTES; half++) {
      halves.add(half);
    }
    Collections.shuffle(halves);
    for (int half : halves) {
      long contents = from.getInt(half * Integer.BYTES) & LOW | next.flag(step, half % 2 == 1);
      LONG.setRelease(data, line(step) + half * Long.BYTES, contents);
      if (half % 97 == 0) {
        Thread.yield();
      }
    }
  }

  private int line(long step) {
    return (int) layout.ll(step) + channel * linePart();
  }

  /** Receives. */
  void empty(int steps) {
    int word = ConnectionLayout.word(channel);
    for (int step = 0; step < steps; step++) {
      Step next = next();
      if (next.inLines()) {
        loadLines(step, next);
      } else {
        await(data, word, step + 1L);
        byte[] seen = new byte[next.contents().length];
        data.get((int) layout.simple(step) + channel * part(), seen);
        require(Arrays.equals(next.contents(), seen), "step %d of channel %d", step, channel);
      }
      LONG.setRelease(credit, word, step + 1L);
    }
  }

  private void loadLines(long step, Step next) {
    ByteBuffer expected = next.padded();
    for (int half = 0; half < expected.capacity() / Integer.BYTES; half++) {
      int at = line(step) + half * Long.BYTES;
      long flag = next.flag(step, half % 2 == 1);
      await(() -> ((long) LONG.getAcquire(data, at) & ~LOW) == flag, "lines of step " + step);
      require(
          over.getAsBoolean()
              || (int) (long) LONG.getAcquire(data, at) == expected.getInt(half * Integer.BYTES),
          "half %d of step %d of channel %d",
          half,
          step,
          channel);
    }
  }

  private void await(ByteBuffer words, int at, long least) {
    await(() -> (long) LONG.getAcquire(words, at) >= least, least + " steps");
  }

  private void await(BooleanSupplier come, String what) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    while (!come.getAsBoolean() && !over.getAsBoolean()) {
      require(System.nanoTime() - end < 0, "%s of channel %d do not come", what, channel);
      Thread.yield();
    }
  }

  static void require(boolean right, String what, Object... arguments) {
    if (!right) {
      throw new AssertionError(what.formatted(arguments));
    }
  }
}
