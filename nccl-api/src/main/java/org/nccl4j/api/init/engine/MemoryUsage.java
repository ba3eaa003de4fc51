package org.nccl4j.api.init.engine;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.group.OperationDispatcher;

/** The device memory of a communicator. */
public final class MemoryUsage {
  private MemoryUsage() {}

  /**
   * Bytes by purpose.
   *
   * @param engine null while the communicator is suspended
   * @param dispatchers of the communicator, whose operations in steps hold memory
   */
  public static Map<String, Long> of(Engine engine, List<OperationDispatcher> dispatchers) {
    Map<String, Long> items = new LinkedHashMap<>();
    dispatchers.forEach(dispatcher -> dispatcher.addStepMemory(items));
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
