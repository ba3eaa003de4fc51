package org.nccl4j.api.init;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.group.QuantisedSums;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.settings.Settings;

/** Dispatchers of operations that are planned by settings of their own. Any thread. */
final class OptionDispatchers {
  private final Map<OperationDispatcher, Settings> all = new HashMap<>();

  /** Those of them that all calls with the same settings share. */
  private final Map<Map<String, String>, OperationDispatcher> shared = new HashMap<>();

  /**
   * Returns the one for settings over others.
   *
   * @param how the operations travel quantised; null if they do not
   */
  synchronized OperationDispatcher of(
      Map<String, String> overrides, QuantisedSums.How how, Settings base, Engine engine) {
    if (how == null && shared.containsKey(overrides)) {
      return shared.get(overrides);
    }
    Settings settings = base.with(overrides);
    OperationDispatcher made = engine.queue(settings);
    if (how == null) {
      shared.put(Map.copyOf(overrides), made);
    } else {
      made.quantise(how);
    }
    all.put(made, settings);
    return made;
  }

  synchronized List<OperationDispatcher> all() {
    return List.copyOf(all.keySet());
  }

  /** Has all launch by another engine. */
  synchronized void become(Engine engine) {
    all.forEach((each, settings) -> each.become(engine.queue(settings)));
  }
}
