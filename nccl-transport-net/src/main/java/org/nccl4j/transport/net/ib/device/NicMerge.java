package org.nccl4j.transport.net.ib.device;

import java.lang.System.Logger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.settings.InfiniBandSettings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.PciPath;

/**
 * The choice of ports that are merged into one device. By default these are the ports of one card:
 * of one libibverbs device, or of several functions of one PCI device; NCCL_NET_MERGE_LEVEL lets
 * cards further apart be merged, each with the first of its group. Virtual functions are not merged
 * by themselves, because they may share a port. Ports of different link layers never are.
 *
 * @param level how far apart ports that are merged may be; LOC for none
 * @param forced groups of names of devices, or of ports, that are merged wherever they are
 */
public record NicMerge(PathType level, List<List<String>> forced) {
  private static final Logger LOG = DebugLog.of("NET");

  /** The distance of ports of one card, and the level if it is PORT or not set. */
  private static final PathType OF_ONE_CARD = PathType.NVL;

  /** Most ports of a merged device: an announcement has room for the keys of as many. */
  public static final int MOST_PORTS = 4;

  /** The values of NCCL_IB_MERGE_NICS, NCCL_NET_MERGE_LEVEL and NCCL_NET_FORCE_MERGE. */
  static NicMerge of(SettingValues values) {
    if (!values.get(InfiniBandSettings.NCCL_IB_MERGE_NICS)) {
      return new NicMerge(PathType.LOC, List.of());
    }
    List<List<String>> forced = new ArrayList<>();
    for (String group : values.get(TopologySettings.NCCL_NET_FORCE_MERGE).split(";")) {
      List<String> names = Arrays.stream(group.split(",")).map(String::strip).distinct().toList();
      if (!group.isBlank()) {
        forced.add(names);
      }
    }
    String level = values.get(TopologySettings.NCCL_NET_MERGE_LEVEL);
    return new NicMerge(PathType.level(level).orElse(OF_ONE_CARD), forced);
  }

  /**
   * Groups ports. The groups are in the order of their first ports.
   *
   * @throws InvalidArgumentException if NCCL_NET_FORCE_MERGE names too many ports, or ports of both
   *     link layers
   */
  public List<List<IbPort>> groups(List<IbPort> ports) {
    forced.forEach(names -> check(names, ports));
    List<List<IbPort>> groups = new ArrayList<>();
    for (IbPort port : ports) {
      groups.stream()
          .filter(group -> group.size() < MOST_PORTS && areOne(group.get(0), port))
          .findFirst()
          .orElseGet(
              () -> {
                List<IbPort> group = new ArrayList<>();
                groups.add(group);
                return group;
              })
          .add(port);
    }
    return groups.stream().map(List::copyOf).toList();
  }

  private boolean areOne(IbPort first, IbPort port) {
    int group = group(first);
    if (group >= 0 || group(port) >= 0) {
      return group == group(port);
    }
    return first.ethernet() == port.ethernet()
        && !isVirtual(first)
        && !isVirtual(port)
        && distance(first, port).within(level);
  }

  /** The number of the group that the settings put a port into; -1 for none. */
  private int group(IbPort port) {
    for (int group = 0; group < forced.size(); group++) {
      if (isNamed(port, forced.get(group))) {
        return group;
      }
    }
    return -1;
  }

  private static PathType distance(IbPort one, IbPort other) {
    if (one.device().equals(other.device())) {
      return OF_ONE_CARD;
    }
    // Without a place on PCI it is no card, such as Soft-RoCE.
    return one.pciPath().isEmpty() || other.pciPath().isEmpty()
        ? PathType.DIS
        : new PciPath(Path.of(one.pciPath()))
            .to(new PciPath(Path.of(other.pciPath())))
            .max(OF_ONE_CARD);
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
