package org.nccl4j.api.init.topology;

import java.io.IOException;
import java.lang.System.Logger;
import java.nio.file.Files;
import java.nio.file.Path;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.NodeGraphs;
import org.nccl4j.topo.search.GraphFile;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Writes the topology of a rank's machine (NCCL_TOPO_DUMP_FILE) and the graphs of its node
 * (NCCL_GRAPH_DUMP_FILE), with the communicator's ranks, if the settings name this rank.
 */
final class TopologyDump {
  private static final Logger LOG = DebugLog.of("GRAPH");

  private final Settings settings;
  private final int rank;

  TopologyDump(Settings settings, int rank) {
    this.settings = settings;
    this.rank = rank;
  }

  void machine(TopologyExchange survey) {
    if (mine(Settings.NCCL_TOPO_DUMP_FILE, Settings.NCCL_TOPO_DUMP_FILE_RANK)) {
      CommTopology.Host host = survey.hostOf(rank);
      XmlElement system = host.system().copy();
      renumber(system, host.ranks());
      write(Settings.NCCL_TOPO_DUMP_FILE, system);
    }
  }

  private static void renumber(XmlElement element, int[] ranks) {
    if (element.is("gpu") && element.text("rank").isPresent()) {
      element.set("rank", ranks[element.requireInt("rank")]);
    }
    element.children().forEach(child -> renumber(child, ranks));
  }

  void graphs(CommTopology topology) {
    if (mine(Settings.NCCL_GRAPH_DUMP_FILE, Settings.NCCL_GRAPH_DUMP_FILE_RANK)) {
      NodeGraphs node = topology.nodeOf(rank);
      write(Settings.NCCL_GRAPH_DUMP_FILE, GraphFile.write(node.graphs(), node::rank));
    }
  }

  /** Ranks on the host device have no GPUs to make graphs of. */
  void noGraphs() {
    if (mine(Settings.NCCL_GRAPH_DUMP_FILE, Settings.NCCL_GRAPH_DUMP_FILE_RANK)) {
      LOG.log(
          Logger.Level.WARNING,
          "NCCL_GRAPH_DUMP_FILE is not written: not every rank has a GPU. Name a topology file in"
              + " NCCL_TOPO_FILE to get graphs on the host device");
    }
  }

  private boolean mine(Setting<String> file, Setting<Integer> writer) {
    return settings.isSet(file) && settings.get(writer) == rank;
  }

  private void write(Setting<String> setting, XmlElement content) {
    Path file = SettingFile.path(setting, settings.get(setting));
    try {
      Files.writeString(file, TopologyXml.write(content));
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.UNWRITABLE,
          "rank %d cannot write %s, named by %s (%s)"
              .formatted(rank, file, setting.name(), IoErrorText.of(e)),
          "name a file in a directory that exists and can be written, or unset it",
          e);
    }
  }
}
