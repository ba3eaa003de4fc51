package org.nccl4j.device.host.reduce;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.Function;
import org.nccl4j.device.HotPath;

/**
 * The typed views of the windows that were used lately, so that a move between memory and an array
 * allocates nothing. A window has a view for each place that an element may begin at, modulo its
 * size.
 *
 * <p>Owned by one thread at a time.
 */
final class Views<B extends Buffer> {
  /** A power of two; more windows than a kernel on 8 ranks goes through. */
  private static final int SLOTS = 64;

  private final Function<ByteBuffer, B> typed;
  private final int mask;
  private final ByteBuffer[] windows = new ByteBuffer[SLOTS];
  private final int[] phases = new int[SLOTS];
  private final Buffer[] views = new Buffer[SLOTS];

  /** Slot that followed each slot last. Operands take turns. */
  private final byte[] followers = new byte[SLOTS];

  private int last;
  private int next;

  Views(Function<ByteBuffer, B> typed, int elementBytes) {
    this.typed = typed;
    this.mask = elementBytes - 1;
  }

  /** The view in which the byte at an index begins an element: the one at index / size. */
  @HotPath
  @SuppressWarnings({"unchecked", "ReferenceEquality"})
  B of(ByteBuffer window, int index) {
    int phase = index & mask;
    int slot = followers[last];
    if (windows[slot] == window && phases[slot] == phase) {
      last = slot;
      return (B) views[slot];
    }
    return find(window, phase);
  }

  @SuppressWarnings({"unchecked", "ReferenceEquality"})
  private B find(ByteBuffer window, int phase) {
    for (int slot = 0; slot < SLOTS; slot++) {
      if (windows[slot] == window && phases[slot] == phase) {
        followers[last] = (byte) slot;
        last = slot;
        return (B) views[slot];
      }
    }
    return add(window, phase);
  }

  private B add(ByteBuffer window, int phase) {
    int slot = next;
    next = (slot + 1) & (SLOTS - 1);
    ByteBuffer shifted = window.slice(phase, window.capacity() - phase);
    B view = typed.apply(shifted.order(ByteOrder.nativeOrder()));
    windows[slot] = window;
    phases[slot] = phase;
    views[slot] = view;
    followers[last] = (byte) slot;
    last = slot;
    return view;
  }
}
