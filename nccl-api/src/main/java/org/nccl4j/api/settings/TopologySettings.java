package org.nccl4j.api.settings;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSetting;
import org.nccl4j.topo.TopoSettings;

/** The settings that {@link TopoSettings} declares and nccl-topo alone reads, but for a few. */
public final class TopologySettings {
  public static final Setting<Integer> NCCL_NCHANNELS_PER_NET_PEER =
      Setting.of(TopoSettings.NCCL_NCHANNELS_PER_NET_PEER);

  public static final Setting<Optional<PathType>> NCCL_P2P_LEVEL =
      Setting.of(TopoSettings.NCCL_P2P_LEVEL);

  public static final Setting<String> NCCL_NET_MERGE_LEVEL =
      Setting.of(TopoSettings.NCCL_NET_MERGE_LEVEL);

  public static final Setting<String> NCCL_NET_MERGE_POLICY =
      Setting.of(TopoSettings.NCCL_NET_MERGE_POLICY);

  public static final Setting<String> NCCL_NET_FORCE_MERGE =
      Setting.of(TopoSettings.NCCL_NET_FORCE_MERGE);

  private TopologySettings() {}

  /**
   * All that are not among others, in the order of the settings page. Loops: see {@link Settings}.
   */
  static List<Setting<?>> besides(List<Setting<?>> others) {
    Set<String> names = new HashSet<>();
    for (Setting<?> other : others) {
      names.add(other.name());
    }
    List<Setting<?>> all = new ArrayList<>();
    for (TopoSetting<?> each : TopoSettings.all()) {
      if (!names.contains(each.name())) {
        Setting<?> setting = Setting.of(each);
        all.add(each.equals(TopoSettings.NCCL_NET_GDR_READ) ? setting.chosenIfUnset() : setting);
      }
    }
    return all;
  }
}
