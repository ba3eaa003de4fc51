package org.nccl4j.topo.cluster;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.search.Channel;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.tuning.Selection;

/** A cluster's result as lines to compare. */
final class Answer {
  private final StringBuilder out = new StringBuilder();

  private Answer() {}

  static String of(Cluster cluster) {
    Answer answer = new Answer();
    answer.line("%d machines", cluster.machines());
    for (MachineGraphs domain : cluster.domains()) {
      for (GraphKind kind : GraphKind.values()) {
        answer.graph(domain.of(kind));
      }
    }
    answer.comm(cluster.comm());
    for (Operation collective : Operation.collectives()) {
      for (int power = 10; power <= 30; power += 10) {
        Selection chosen = cluster.costs().select(collective, 1L << power).orElse(null);
        if (chosen != null) {
          answer.line(
              "%s 2^%d: %s %s %.2f",
              collective.label(),
              power,
              chosen.algorithm().label(),
              chosen.protocol().label(),
              chosen.micros());
        }
      }
    }
    return answer.out.toString();
  }

  private void graph(ChannelGraph graph) {
    if (graph.nChannels() == 0) {
      return;
    }
    line(
        "%s %s: %d x %.2f/%.2f %s/%s same %b cross %d",
        graph.kind().label(),
        graph.pattern(),
        graph.nChannels(),
        graph.bwIntra(),
        graph.bwInter(),
        graph.typeIntra(),
        graph.typeInter(),
        graph.sameChannels(),
        graph.crossNic());
    for (Channel channel : graph.channels()) {
      line(
          "  %s%s",
          channel.ranks().stream().map(String::valueOf).collect(Collectors.joining(" ")),
          channel.nets().isEmpty()
              ? ""
              : " | " + channel.nets().get(0).key() + " " + channel.nets().get(1).key());
    }
  }

  private void comm(CommGraph comm) {
    line(
        "%d ranks, %d nodes, channels %d nvls %d peer %d of %d",
        comm.shape().nRanks(),
        comm.shape().nNodes(),
        comm.nChannels(),
        comm.nvlsChannels(),
        comm.channelsPerPeer(),
        comm.peerChannels());
    line("ring 0: %s", Arrays.toString(comm.rings().order(0)));
    line(
        "tree of rank 0: %d %s",
        comm.trees().place(0, 0).up(), Arrays.toString(comm.trees().place(0, 0).down()));
  }

  private void line(String format, Object... values) {
    out.append(String.format(Locale.ROOT, format, values)).append('\n');
  }
}
