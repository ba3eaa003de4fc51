package org.nccl4j.it.topo;

import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.detect.SysFiles;
import org.nccl4j.topo.detect.TopologyFile;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** The machine of a host, with or without GPUs, for commands that show what runs on it. */
public final class HostMachine {
  /**
   * A rank names the card that it uses itself: paths through another rank's GPU are not its own.
   */
  private static final Map<String, String> OWN_CARDS =
      Map.of(TopoSettings.NCCL_PXN_DISABLE.name(), "1");

  private HostMachine() {}

  /**
   * This host's machine, from NCCL_TOPO_FILE, the hypervisor's file or detection; empty if it has
   * neither a GPU nor a network.
   *
   * @throws TopologyException if a file cannot be read
   */
  public static Optional<Routes> here() {
    Settings settings = Settings.ofProcess(OWN_CARDS);
    Path root = Path.of("/");
    Optional<TopologyFile> file =
        TopologyFile.of(
            settings
                .find(Settings.NCCL_TOPO_FILE)
                .map(text -> SettingFile.path(Settings.NCCL_TOPO_FILE, text)),
            new SysFiles(root));
    XmlElement system =
        file.filter(TopologyFile::isWhole)
            .map(whole -> LiveMachine.of(root, whole, settings))
            .orElseGet(() -> LiveMachine.of(root, file, settings).system());
    return system.children().isEmpty() ? Optional.empty() : Optional.of(routes(system, settings));
  }

  /**
   * The machine that a topology file describes.
   *
   * @throws TopologyException if it cannot be read, or has neither a GPU nor a network
   */
  public static Routes of(Path file) {
    return routes(TopologyXml.readSystem(file), Settings.ofProcess(OWN_CARDS));
  }

  private static Routes routes(XmlElement system, Settings settings) {
    return Cluster.routesOfHost(
        system, new ClusterOptions(settings.topology(), PeerStatus.ALLOWED, /* collNet= */ false));
  }
}
