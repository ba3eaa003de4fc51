package org.nccl4j.api.init;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.group.QuantisedMemory;
import org.nccl4j.api.group.QuantisedSums;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.settings.Settings;

/** Dispatchers of operations that are planned by settings of their own. Any thread. */
final class OptionDispatchers {
  private final Map<OperationDispatcher, Settings> all = new HashMap<>();

  /** Those that all calls with the same options share. */
  private final Map<Key, OperationDispatcher> shared = new HashMap<>();

  /** The memory between the steps of all that travels quantised; null before the first. */
  private QuantisedMemory quantised;

  /**
   * The options of a dispatcher.
   *
   * @param how the operations travel quantised; null if they do not
   */
  private record Key(Map<String, String> overrides, QuantisedSums.How how) {}

  /**
   * Returns the one for settings over others.
   *
   * @param how the operations travel quantised; null if they do not
   */
  synchronized OperationDispatcher of(
      Map<String, String> overrides, QuantisedSums.How how, Settings base, Engine engine) {
    return shared.computeIfAbsent(
        new Key(Map.copyOf(overrides), how), key -> create(key, base.with(overrides), engine));
  }

  private OperationDispatcher create(Key key, Settings settings, Engine engine) {
    OperationDispatcher made = engine.dispatcher(settings);
    if (key.how != null) {
      if (quantised == null) {
        quantised = new QuantisedMemory(engine.place().request().device());
      }
      made.quantise(key.how, quantised);
    }
    all.put(made, settings);
    return made;
  }

  synchronized List<OperationDispatcher> all() {
    return List.copyOf(all.keySet());
  }

  /** Has all launch by another engine. */
  synchronized void become(Engine engine) {
    all.forEach((each, settings) -> each.become(engine.dispatcher(settings)));
  }
}
