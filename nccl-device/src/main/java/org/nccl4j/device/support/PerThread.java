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
  private final ThreadLocal<WeakReference<T>> own = new ThreadLocal<>();
  private final Map<Thread, T> kept = Collections.synchronizedMap(new WeakHashMap<>());
  private final Supplier<T> maker;

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
  public T getIfMade() {
    WeakReference<T> reference = own.get();
    return reference == null ? null : reference.get();
  }

  private T make() {
    T value = maker.get();
    kept.put(Thread.currentThread(), value);
    own.set(new WeakReference<>(value));
    return value;
  }
}
