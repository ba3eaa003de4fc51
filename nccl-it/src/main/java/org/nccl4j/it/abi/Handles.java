package org.nccl4j.it.abi;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.LongFunction;
import java.util.stream.Stream;
import org.nccl4j.device.HotPath;

/**
 * Objects by the numbers that a C program keeps in place of pointers. A number is never given
 * again, so that a use after free is an error and no crash. Any thread.
 */
final class Handles<T> {
  private static final int KIND_BITS = 4;
  private static final int INDEX_BITS = 20;
  private static final int INDEX_MASK = (1 << INDEX_BITS) - 1;

  private record Slot<T>(long handle, T value) {}

  private final int kind;

  /** Copied at each change. */
  private volatile Slot<T>[] slots;

  private long serial;

  /**
   * An empty table.
   *
   * @param kind 1 to 15, part of each handle: one kind's handle is no other kind's
   */
  Handles(int kind) {
    this.kind = kind;
    this.slots = empty(8);
  }

  @SuppressWarnings("unchecked")
  private static <T> Slot<T>[] empty(int length) {
    return (Slot<T>[]) new Slot<?>[length];
  }

  /** Keeps an object that is made with its own handle. */
  synchronized T add(LongFunction<T> maker) {
    int index = 0;
    while (index < slots.length && slots[index] != null) {
      index++;
    }
    if (index > INDEX_MASK) {
      throw Wrong.usage("the process has more than %d handles".formatted(INDEX_MASK), "free some");
    }
    Slot<T>[] changed = Arrays.copyOf(slots, index < slots.length ? slots.length : 2 * index);
    serial++;
    long handle = (serial << INDEX_BITS | index) << KIND_BITS | kind;
    T value = maker.apply(handle);
    changed[index] = new Slot<>(handle, value);
    slots = changed;
    return value;
  }

  /** The object of a handle; null if there is none. */
  @HotPath
  T find(long handle) {
    Slot<T>[] now = slots;
    int index = (int) (handle >>> KIND_BITS) & INDEX_MASK;
    Slot<T> slot = index < now.length ? now[index] : null;
    return slot != null && slot.handle == handle ? slot.value : null;
  }

  /** All objects. */
  List<T> all() {
    return Stream.of(slots).filter(Objects::nonNull).map(Slot::value).toList();
  }

  /** Forgets a handle; returns its object, or null if it has none. */
  synchronized T remove(long handle) {
    T found = find(handle);
    if (found != null) {
      Slot<T>[] changed = slots.clone();
      changed[(int) (handle >>> KIND_BITS) & INDEX_MASK] = null;
      slots = changed;
    }
    return found;
  }
}
