package org.nccl4j.api.init.engine;

import java.util.LinkedHashMap;
import java.util.Map;

/** The device memory of a communicator. */
public final class MemoryUsage {
  private MemoryUsage() {}

  public static Map<String, Long> of(Engine engine) {
    Map<String, Long> items = new LinkedHashMap<>();
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
