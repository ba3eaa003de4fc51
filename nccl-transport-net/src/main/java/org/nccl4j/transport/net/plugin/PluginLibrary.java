package org.nccl4j.transport.net.plugin;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.Offheap;

/** The plug-ins of this process. A library that was loaded stays. Any thread. */
final class PluginLibrary {
  private static final Map<String, PluginLibrary> LOADED = new ConcurrentHashMap<>();

  /** Why the default library, which most machines do not have, cannot be loaded. */
  private static final Map<String, String> ABSENT = new ConcurrentHashMap<>();

  private static final String DEFAULT = "libnccl-net.so";
  private static final String NONE = "none";

  private final PluginTable table;
  private boolean started;

  private PluginLibrary(PluginTable table) {
    this.table = table;
  }

  /**
   * The first plug-in of those that are named which can be loaded.
   *
   * @param library it; empty if there is none
   * @param reasons why the others cannot be used
   */
  record Found(Optional<PluginLibrary> library, List<String> reasons) {}

  /**
   * Loads a plug-in.
   *
   * @param setting names or files separated by commas; empty for the default name
   */
  static Found find(String setting) {
    List<String> reasons = new ArrayList<>();
    for (String name : (setting.isBlank() ? DEFAULT : setting).split(",")) {
      if (name.strip().equalsIgnoreCase(NONE)) {
        reasons.add("NCCL_NET_PLUGIN=none forbids it");
        break;
      }
      for (String file : files(name.strip())) {
        PluginLibrary loaded = LOADED.get(file);
        if (loaded == null) {
          loaded = load(file, reasons);
        }
        if (loaded != null) {
          LOADED.putIfAbsent(file, loaded);
          return new Found(Optional.of(LOADED.get(file)), reasons);
        }
      }
    }
    return new Found(Optional.empty(), reasons);
  }

  private static List<String> files(String name) {
    boolean isFile = name.contains("/") || name.contains(".so");
    return isFile ? List.of(name) : List.of("libnccl-net-" + name + ".so", name);
  }

  private static PluginLibrary load(String file, List<String> reasons) {
    if (ABSENT.containsKey(file)) {
      reasons.add(ABSENT.get(file));
      return null;
    }
    try {
      for (int version = PluginTable.NEWEST; version >= PluginTable.OLDEST; version--) {
        long table = NativeFunction.find(file, "ncclNetPlugin_v" + version);
        if (table != 0) {
          return new PluginLibrary(new PluginTable(version, table));
        }
      }
      reasons.add(
          "%s has none of ncclNetPlugin_v%d to v%d"
              .formatted(file, PluginTable.OLDEST, PluginTable.NEWEST));
    } catch (SystemErrorException e) {
      reasons.add(e.problem());
      if (file.equals(DEFAULT)) {
        ABSENT.put(file, e.problem()); // else each communicator would look for it
      }
    }
    return null;
  }

  PluginTable table() {
    return table;
  }

  /**
   * Initialises the plug-in for a communicator; one without contexts, for the process and once.
   *
   * @return the context; 0 where the version has none
   */
  synchronized long start(long communicator) {
    if (started && !table.hasContexts()) {
      return 0;
    }
    Offheap block = new Offheap(2 * Long.BYTES);
    block.lend(
        address -> {
          table.init(block, communicator);
          return 0;
        });
    started = true;
    return table.hasContexts() ? block.getLong(0) : 0;
  }
}
