package org.nccl4j.topo.report;

import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;

/** Explains the result of the search, and the conditions that it relaxed. */
final class ExplainChannels {
  private static final String SECTION = "Channels";

  private final Sentences sentences;
  private final TopoSettings settings;

  ExplainChannels(Sentences sentences, TopoSettings settings) {
    this.sentences = sentences;
    this.settings = settings;
  }

  void write(Cluster cluster) {
    for (MachineGraphs domain : cluster.domains()) {
      for (GraphKind kind : GraphKind.values()) {
        ChannelGraph graph = domain.of(kind);
        if (graph.nChannels() > 0) {
          sentences.say(SECTION, kind.label(), found(domain, graph));
        }
      }
      if (!domain.nvlsSupported()) {
        sentences.say(SECTION, "nvls", whyNot(domain));
      }
    }
    CommGraph comm = cluster.comm();
    sentences.say(
        SECTION,
        "communicator",
        comm.nChannels()
            + " channels for collectives (each searched channel serves two trees;"
            + " NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS bound it), "
            + comm.peerChannels()
            + " for send and receive, "
            + comm.channelsPerPeer()
            + " of them per peer.");
  }

  private String found(MachineGraphs domain, ChannelGraph graph) {
    StringBuilder text = new StringBuilder();
    text.append(graph.nChannels())
        .append(" channels of ")
        .append(ReportText.gb(graph.bwIntra()))
        .append(" between GPUs over at most ")
        .append(graph.typeIntra());
    if (domain.inter()) {
      text.append(", ")
          .append(ReportText.gb(graph.bwInter()))
          .append(" to networks over at most ")
          .append(graph.typeInter());
    }
    text.append("; a GPU can send ")
        .append(ReportText.gb(domain.totalBandwidth()))
        .append(" in all, a channel at most ")
        .append(ReportText.gb(domain.maxBandwidth()))
        .append('.');
    gaveUp(graph, text);
    if (graph.crossNic() == 2) {
      text.append(" Pairs of rings change cards, which was faster (NCCL_CROSS_NIC=0 forbids it).");
    }
    if (settings.find(TopoSettings.NCCL_GRAPH_FILE).isPresent()) {
      text.append(" Read from NCCL_GRAPH_FILE where that file has it.");
    }
    return text.toString();
  }

  private static void gaveUp(ChannelGraph graph, StringBuilder text) {
    if (graph.bwIntra() == 0.1f) {
      text.append(
          " NOTHING BETTER WAS FOUND: GPUs in order. Check the file, or set NCCL_P2P_LEVEL=SYS.");
    }
    if (!graph.sameChannels() && !graph.pattern().isHeads()) {
      text.append(" Equal channels were given up for more bandwidth.");
    }
    if (graph.kind() == GraphKind.TREE && graph.pattern() == Pattern.TREE) {
      text.append(" Plain trees: balanced ones did not fit.");
    }
  }

  private String whyNot(MachineGraphs domain) {
    if (!settings.nvlsEnabled()) {
      return "off, NCCL_NVLS_ENABLE=0 is set.";
    }
    if (domain.routes().machine().nvSwitches().isEmpty()) {
      return "off, there is no NVSwitch.";
    }
    return "off, it needs two GPUs of compute capability 90 or more.";
  }
}
