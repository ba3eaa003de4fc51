package org.nccl4j.api.init;

import java.util.LinkedHashMap;
import java.util.Map;

/** The device memory of a communicator. */
final class Memory {
  private Memory() {}

  static Map<String, Long> of(Engine engine) {
    Map<String, Long> items = new LinkedHashMap<>();
    if (engine.place().windows().memoryBytes() > 0) {
      items.put("windows", engine.place().windows().memoryBytes());
    }
    if (engine.kernels() != engine.family().kernels()) {
      items.put("kernels", engine.kernels().memoryBytes());
      return items;
    }
    engine.family().memory().forEach(item -> items.put(item.purpose(), item.bytes()));
    return items;
  }
}
