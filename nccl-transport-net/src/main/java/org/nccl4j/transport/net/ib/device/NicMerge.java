package org.nccl4j.transport.net.ib.device;

import java.lang.System.Logger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.settings.InfiniBandSettings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The choice of ports that are merged into one device. By default these are the ports of one card:
 * of one libibverbs device, or of several functions of one PCI device. Virtual functions are not
 * merged by themselves, because they may share a port. Ports of different link layers never are.
 *
 * @param automatic whether ports of one card are merged
 * @param forced groups of names of devices, or of ports, that are merged wherever they are
 */
public record NicMerge(boolean automatic, List<List<String>> forced) {
  private static final Logger LOG = DebugLog.of("NET");

  /** Most ports of a merged device: an announcement has room for the keys of as many. */
  public static final int MOST_PORTS = 4;

  /** The values of NCCL_IB_MERGE_NICS, NCCL_NET_MERGE_LEVEL and NCCL_NET_FORCE_MERGE. */
  static NicMerge of(SettingValues values) {
    if (!values.get(InfiniBandSettings.NCCL_IB_MERGE_NICS)) {
      return new NicMerge(false, List.of());
    }
    List<List<String>> forced = new ArrayList<>();
    for (String group : values.get(TopologySettings.NCCL_NET_FORCE_MERGE).split(";")) {
      List<String> names = Arrays.stream(group.split(",")).map(String::strip).distinct().toList();
      if (!group.isBlank()) {
        forced.add(names);
      }
    }
    boolean automatic = !values.get(TopologySettings.NCCL_NET_MERGE_LEVEL).startsWith("LOC");
    return new NicMerge(automatic, forced);
  }

  /**
   * Groups ports. The groups are in the order of their first ports.
   *
   * @throws InvalidArgumentException if NCCL_NET_FORCE_MERGE names too many ports, or ports of both
   *     link layers
   */
  public List<List<IbPort>> groups(List<IbPort> ports) {
    Map<String, List<IbPort>> groups = new LinkedHashMap<>();
    for (IbPort port : ports) {
      List<IbPort> group = groups.computeIfAbsent(key(port), key -> new ArrayList<>());
      group.add(port);
    }
    List<List<IbPort>> all = new ArrayList<>();
    groups.forEach(
        (key, group) -> {
          for (int at = 0; at < group.size(); at += MOST_PORTS) {
            all.add(List.copyOf(group.subList(at, Math.min(at + MOST_PORTS, group.size()))));
          }
        });
    forced.forEach(names -> check(names, ports));
    return all;
  }

  /** Ports with equal keys are merged. */
  private String key(IbPort port) {
    for (int group = 0; group < forced.size(); group++) {
      if (isNamed(port, forced.get(group))) {
        return "group " + group;
      }
    }
    String layer = port.ethernet() ? " RoCE" : " InfiniBand";
    return automatic && !isVirtual(port) ? card(port) + layer : port.name();
  }

  /** The card's place: that of its PCI functions, without the number of the function. */
  private static String card(IbPort port) {
    int function = port.pciPath().lastIndexOf('.');
    return function < 0 ? port.device() : port.pciPath().substring(0, function);
  }

  private static boolean isVirtual(IbPort port) {
    return !port.pciPath().isEmpty() && Files.exists(Path.of(port.pciPath(), "physfn"));
  }

  private static boolean isNamed(IbPort port, List<String> names) {
    return names.contains(port.device()) || names.contains(port.name());
  }

  private static void check(List<String> names, List<IbPort> ports) {
    List<IbPort> named = ports.stream().filter(port -> isNamed(port, names)).toList();
    if (named.size() < names.size()) {
      LOG.log(
          Logger.Level.WARNING,
          "NCCL_NET_FORCE_MERGE names {0}; of these only {1} can be used, which are merged",
          names,
          named.stream().map(IbPort::name).toList());
    }
    boolean mixed = named.stream().map(IbPort::ethernet).distinct().count() > 1;
    if (named.size() > MOST_PORTS || mixed) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL_NET_FORCE_MERGE names %s, and the ports of these names are %s"
              .formatted(names, named.stream().map(IbPort::describe).toList()),
          "name ports or devices of one link layer, at most %d ports in a group, or set"
                  .formatted(MOST_PORTS)
              + " NCCL_IB_MERGE_NICS=0");
    }
  }
}
