package org.nccl4j.api.init.topology;

import java.lang.ref.SoftReference;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The last few results of a computation, which all ranks of this process share: the first rank that
 * comes computes, the others wait. A result is freed if memory gets short, and then computed again.
 * Any thread.
 *
 * @param <K> everything that decides a result
 * @param <V> results, immutable or only read
 */
final class RecentResults<K, V> {
  private static final int MOST = 4;

  private final Map<K, Result<V>> known =
      new LinkedHashMap<>(MOST, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<K, Result<V>> eldest) {
          return size() > MOST;
        }
      };

  private static final class Result<V> {
    private SoftReference<V> found = new SoftReference<>(null);

    synchronized V get(Supplier<V> computation) {
      V result = found.get();
      if (result == null) {
        result = computation.get();
        found = new SoftReference<>(result);
      }
      return result;
    }
  }

  /** Returns the result for a key, computed if it is not known. An error is not kept. */
  V of(K key, Supplier<V> computation) {
    Result<V> one;
    synchronized (known) {
      one = known.computeIfAbsent(key, missing -> new Result<>());
    }
    return one.get(computation);
  }
}
