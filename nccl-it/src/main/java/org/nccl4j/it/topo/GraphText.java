package org.nccl4j.it.topo;

import java.io.PrintWriter;
import java.util.Locale;
import java.util.stream.Collectors;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.search.Channel;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;

/** Graphs as text to read. */
final class GraphText {
  private final PrintWriter out;

  GraphText(PrintWriter out) {
    this.out = out;
  }

  /** Some things: "1 rank", "2 ranks". */
  static String count(int number, String thing) {
    return number + " " + thing + (number == 1 ? "" : "s");
  }

  void summary(Cluster cluster) {
    CommGraph comm = cluster.comm();
    out.printf(
        Locale.ROOT,
        "%s, %s: %d channels, %d for NVLS, %d for send and receive%n",
        count(cluster.machines(), "machine"),
        count(comm.shape().nRanks(), "rank"),
        comm.nChannels(),
        comm.nvlsChannels(),
        comm.peerChannels());
  }

  void write(Cluster cluster) {
    summary(cluster);
    for (MachineGraphs domain : cluster.domains()) {
      for (GraphKind kind : GraphKind.values()) {
        graph(domain.of(kind));
      }
    }
  }

  private void graph(ChannelGraph graph) {
    if (graph.nChannels() == 0) {
      return;
    }
    out.printf(
        Locale.ROOT,
        "  %s (%s): %d channels, %.1f GB/s between GPUs (%s), %.1f GB/s to the network (%s)%n",
        graph.kind().label(),
        graph.pattern().name().toLowerCase(Locale.ROOT).replace('_', ' '),
        graph.nChannels(),
        graph.bwIntra(),
        graph.typeIntra(),
        graph.bwInter(),
        graph.typeInter());
    for (int c = 0; c < graph.nChannels(); c++) {
      Channel channel = graph.channels().get(c);
      String ranks = channel.ranks().stream().map(String::valueOf).collect(Collectors.joining(" "));
      String in = channel.nets().isEmpty() ? "" : channel.nets().get(0) + " - ";
      String out2 = channel.nets().isEmpty() ? "" : " - " + channel.nets().get(1);
      out.printf("    %2d: %s%s%s%n", c, in, ranks, out2);
    }
  }
}
