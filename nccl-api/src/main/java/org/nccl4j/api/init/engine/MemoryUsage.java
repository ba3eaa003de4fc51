package org.nccl4j.api.init.engine;

import java.util.LinkedHashMap;
import java.util.Map;

/** The device memory of a communicator. */
public final class MemoryUsage {
  private MemoryUsage() {}

  /**
   * Bytes by purpose.
   *
   * @param engine null while the communicator is suspended
   * @param quantised of quantised operations
   * @param functions of reductions by functions
   * @param rails of all-to-alls by rails
   */
  public static Map<String, Long> of(Engine engine, long quantised, long functions, long rails) {
    Map<String, Long> items = new LinkedHashMap<>();
    if (functions > 0) {
      items.put("reductions by functions", functions);
    }
    if (quantised > 0) {
      items.put("quantised sums", quantised);
    }
    if (rails > 0) {
      items.put("all-to-all by rails", rails);
    }
    if (engine == null) {
      return items;
    }
    if (engine.place().windows().memoryBytes() > 0) {
      items.put("windows", engine.place().windows().memoryBytes());
    }
    if (engine.kernels() != engine.resources().kernels()) {
      items.put("kernels", engine.kernels().memoryBytes());
      return items;
    }
    engine.resources().memory().forEach(item -> items.put(item.purpose(), item.bytes()));
    return items;
  }
}
