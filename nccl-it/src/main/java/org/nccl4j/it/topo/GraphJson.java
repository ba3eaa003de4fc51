package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.util.List;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.connect.Trees;
import org.nccl4j.topo.search.Channel;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;
import org.nccl4j.topo.tuning.Cost;
import org.nccl4j.topo.tuning.NcclCostModel;
import org.nccl4j.topo.tuning.Selection;

/** Graphs, connections and costs of clusters as one JSON document. */
final class GraphJson {
  private static final int SMALLEST_POWER = 8;
  private static final int LARGEST_POWER = 33;

  private final JsonGenerator json;

  GraphJson(JsonGenerator json) {
    this.json = json;
  }

  void write(String file, List<Cluster> clusters, boolean collNet) throws IOException {
    json.writeStartObject();
    json.writeStringField("file", file);
    gpus(clusters.get(0).whole().machine().gpus());
    json.writeArrayFieldStart("scenarios");
    for (Cluster cluster : clusters) {
      scenario(cluster, collNet);
    }
    json.writeEndArray();
    json.writeEndObject();
  }

  private void gpus(List<Node> unordered) throws IOException {
    json.writeArrayFieldStart("gpus");
    List<Node> gpus =
        unordered.stream()
            .sorted((a, b) -> Integer.compare(a.gpu().rank(), b.gpu().rank()))
            .toList();
    for (Node gpu : gpus) {
      NodeAttributes.Gpu facts = gpu.gpu();
      json.writeStartObject();
      json.writeNumberField("rank", facts.rank());
      json.writeNumberField("dev", facts.dev());
      json.writeStringField("busid", Long.toHexString(gpu.parentDevice().id()));
      json.writeNumberField("sm", facts.sm());
      json.writeNumberField("gdr", facts.gdr() ? 1 : 0);
      json.writeNumberField("host", gpu.host());
      json.writeEndObject();
    }
    json.writeEndArray();
  }

  private void scenario(Cluster cluster, boolean collNet) throws IOException {
    json.writeStartObject();
    json.writeStringField("label", cluster.machines() + "node" + (collNet ? "_collnet" : ""));
    json.writeNumberField("simNodes", cluster.machines());
    json.writeNumberField("nRanks", cluster.comm().shape().nRanks());
    json.writeNumberField("collnetEnable", collNet ? 1 : 0);
    json.writeArrayFieldStart("domains");
    for (MachineGraphs domain : cluster.domains()) {
      domain(domain, collNet);
    }
    json.writeEndArray();
    comm(cluster.comm());
    aligned(cluster.comm());
    tuning(cluster.costs());
    if (cluster.comm().shape().nRanks() > 1) {
      selection(cluster.costs());
    }
    json.writeEndObject();
  }

  private void domain(MachineGraphs domain, boolean collNet) throws IOException {
    json.writeStartObject();
    ranks(
        "ranks",
        domain.routes().machine().gpus().stream().mapToInt(gpu -> gpu.gpu().rank()).toArray());
    json.writeNumberField("nvlsSupport", domain.nvlsSupported() ? 1 : 0);
    json.writeArrayFieldStart("graphs");
    for (GraphKind kind : GraphKind.values()) {
      if (collNet || !kind.needsCollNet()) {
        graph(domain.of(kind));
      }
    }
    json.writeEndArray();
    new PathsJson(json, domain).write();
    json.writeEndObject();
  }

  private void graph(ChannelGraph graph) throws IOException {
    json.writeStartObject();
    json.writeStringField("name", graph.kind().label());
    json.writeNumberField("id", graph.kind().id());
    json.writeNumberField("pattern", graph.pattern().id());
    json.writeStringField("patternName", graph.pattern().name());
    json.writeNumberField("crossNic", graph.crossNic());
    json.writeNumberField("nChannels", graph.nChannels());
    json.writeNumberField("bwIntra", graph.bwIntra());
    json.writeNumberField("bwInter", graph.bwInter());
    json.writeNumberField("latencyInter", graph.latencyInter());
    json.writeStringField("typeIntra", graph.typeIntra().name());
    json.writeStringField("typeInter", graph.typeInter().name());
    json.writeNumberField("sameChannels", graph.sameChannels() ? 1 : 0);
    json.writeNumberField("nHops", graph.hops());
    json.writeNumberField("minChannels", graph.minChannels());
    json.writeNumberField("maxChannels", graph.maxChannels());
    json.writeArrayFieldStart("channels");
    for (Channel channel : graph.channels()) {
      json.writeStartObject();
      ranks("intra", channel.ranks().stream().mapToInt(rank -> rank).toArray());
      if (!channel.nets().isEmpty()) {
        json.writeArrayFieldStart("inter");
        for (Node net : channel.nets()) {
          json.writeString(net.key());
        }
        json.writeEndArray();
      }
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeEndObject();
  }

  private void comm(CommGraph comm) throws IOException {
    json.writeObjectFieldStart("comm");
    json.writeNumberField("nNodes", comm.shape().nNodes());
    ranks("rankToNode", comm.shape().rankToNode());
    json.writeNumberField("nChannels", comm.nChannels());
    json.writeNumberField("nvlsSupport", comm.nvls() ? 1 : 0);
    json.writeNumberField("nvlsChannels", comm.nvlsChannels());
    json.writeNumberField("p2pnChannels", comm.peerChannels());
    json.writeNumberField("p2pnChannelsPerPeer", comm.channelsPerPeer());
    json.writeNumberField("maxTreePattern", comm.treePattern().id());
    json.writeNumberField("minCompCap", comm.shape().minSm());
    json.writeNumberField("maxCompCap", comm.shape().maxSm());
    json.writeArrayFieldStart("rings");
    for (int c = 0; c < comm.nChannels(); c++) {
      array(comm.rings().order(c));
    }
    json.writeEndArray();
    json.writeArrayFieldStart("trees");
    for (int rank = 0; rank < comm.shape().nRanks(); rank++) {
      json.writeStartArray();
      for (int c = 0; c < comm.nChannels(); c++) {
        Trees.Place place = comm.trees().place(rank, c);
        int[] down = place.down();
        array(new int[] {place.up(), down[0], down[1], down[2]});
      }
      json.writeEndArray();
    }
    json.writeEndArray();
    ranks("nvlsHeadsNode0", comm.nvlsHeads().stream().mapToInt(rank -> rank).toArray());
    json.writeEndObject();
  }

  private void aligned(CommGraph comm) throws IOException {
    json.writeObjectFieldStart("alignedGraphs");
    for (GraphKind kind : GraphKind.values()) {
      AlignedGraph graph = comm.of(kind);
      json.writeObjectFieldStart(kind.label());
      json.writeNumberField("nChannels", graph.nChannels());
      json.writeNumberField("sameChannels", graph.sameChannels() ? 1 : 0);
      json.writeNumberField("bwIntra", graph.bwIntra());
      json.writeNumberField("bwInter", graph.bwInter());
      json.writeStringField("typeIntra", graph.typeIntra().name());
      json.writeStringField("typeInter", graph.typeInter().name());
      json.writeNumberField("crossNic", graph.crossNic());
      json.writeEndObject();
    }
    json.writeEndObject();
  }

  private void tuning(NcclCostModel costs) throws IOException {
    json.writeObjectFieldStart("tuning");
    for (Operation collective : Operation.collectives()) {
      json.writeObjectFieldStart(collective.label());
      for (Algorithm algorithm : Algorithm.ofNccl()) {
        json.writeArrayFieldStart(algorithm.label());
        for (Protocol protocol : Protocol.values()) {
          Cost cost = costs.cost(collective, algorithm, protocol);
          json.writeStartArray();
          json.writeNumber(cost.latency());
          json.writeNumber(cost.bandwidth());
          json.writeEndArray();
        }
        json.writeEndArray();
      }
      json.writeEndObject();
    }
    json.writeEndObject();
  }

  private void selection(NcclCostModel costs) throws IOException {
    json.writeObjectFieldStart("selection");
    for (Operation collective : Operation.collectives()) {
      json.writeArrayFieldStart(collective.label());
      for (int power = SMALLEST_POWER; power <= LARGEST_POWER; power++) {
        long bytes = 1L << power;
        Selection selection = costs.select(collective, bytes).orElse(null);
        if (selection != null) {
          json.writeStartArray();
          json.writeNumber(bytes);
          json.writeString(selection.algorithm().label());
          json.writeString(selection.protocol().label());
          json.writeNumber(selection.micros());
          json.writeEndArray();
        }
      }
      json.writeEndArray();
    }
    json.writeEndObject();
  }

  private void ranks(String name, int[] ranks) throws IOException {
    json.writeFieldName(name);
    array(ranks);
  }

  private void array(int[] values) throws IOException {
    json.writeArray(values, 0, values.length);
  }
}
