package org.nccl4j.device.support;

import java.lang.ref.WeakReference;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Supplier;
import org.nccl4j.device.HotPath;

/**
 * A value for each thread, created at the thread's first use. Unlike with ThreadLocal, the thread
 * has no reference to the value: a thread of a pool lives longer than a web application, and would
 * keep the value's class and so all classes of the application.
 */
public final class PerThread<T> {
  /** Places of values that are found without the thread's table. */
  private static final int RECENT = 16;

  private final ThreadLocal<WeakReference<Own<T>>> own = new ThreadLocal<>();
  private final Map<Thread, Own<T>> kept = Collections.synchronizedMap(new WeakHashMap<>());
  private final Supplier<T> maker;

  /** Values that were used last, by their threads' numbers. Any thread; values do not change. */
  private final Own<?>[] recent = new Own<?>[RECENT];

  /** A value and its thread. */
  private static final class Own<T> extends WeakReference<Thread> {
    final T value;

    Own(Thread thread, T value) {
      super(thread);
      this.value = value;
    }
  }

  /**
   * Creates an empty set of values.
   *
   * @param maker creates values that do not refer to their thread
   */
  public PerThread(Supplier<T> maker) {
    this.maker = maker;
  }

  /** Returns the calling thread's value. */
  public T get() {
    T value = getIfMade();
    return value == null ? make() : value;
  }

  /** Returns the calling thread's value; null if it has none yet. */
  @HotPath
  @SuppressWarnings({"unchecked", "ReferenceEquality"})
  public T getIfMade() {
    Thread caller = Thread.currentThread();
    Own<?> found = recent[(int) caller.getId() & RECENT - 1];
    return found != null && found.get() == caller ? (T) found.value : find(caller);
  }

  private T find(Thread caller) {
    WeakReference<Own<T>> reference = own.get();
    Own<T> found = reference == null ? null : reference.get();
    if (found == null) {
      return null;
    }
    recent[(int) caller.getId() & RECENT - 1] = found;
    return found.value;
  }

  private T make() {
    Thread caller = Thread.currentThread();
    Own<T> made = new Own<>(caller, maker.get());
    kept.put(caller, made);
    own.set(new WeakReference<>(made));
    return made.value;
  }
}
