package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/** Paths between the devices of a machine, and the machine's nodes and links, as JSON. */
final class PathsJson {
  private static final NodeType[] TARGETS = {
    NodeType.GPU, NodeType.NET, NodeType.CPU, NodeType.NVS
  };

  private final JsonGenerator json;
  private final MachineGraphs graphs;
  private final Machine machine;

  PathsJson(JsonGenerator json, MachineGraphs graphs) {
    this.json = json;
    this.graphs = graphs;
    this.machine = graphs.routes().machine();
  }

  void write() throws IOException {
    json.writeObjectFieldStart("paths");
    json.writeStringField("format", "[type, GB/s, hops without the device's own, hops]");
    json.writeObjectFieldStart("from_gpu");
    for (Node gpu : machine.gpus()) {
      from(gpuName(gpu), gpu);
    }
    json.writeEndObject();
    json.writeObjectFieldStart("from_net");
    for (Node net : machine.nets()) {
      from(netName(net) + "#" + net.index(), net);
    }
    json.writeEndObject();
    names("gpu_order", machine.gpus().stream().map(PathsJson::gpuName).toList());
    names("net_order", machine.nets().stream().map(PathsJson::netName).toList());
    names("cpu_order", machine.cpus().stream().map(Node::toString).toList());
    json.writeEndObject();
    system();
  }

  private static String gpuName(Node gpu) {
    return "GPU" + gpu.gpu().rank();
  }

  private static String netName(Node net) {
    return "NET" + net.key();
  }

  private void names(String field, List<String> names) throws IOException {
    json.writeArrayFieldStart(field);
    for (String name : names) {
      json.writeString(name);
    }
    json.writeEndArray();
  }

  private void from(String name, Node source) throws IOException {
    json.writeObjectFieldStart(name);
    for (NodeType type : TARGETS) {
      if (machine.nodes(type).isEmpty()) {
        continue;
      }
      json.writeArrayFieldStart(type.name());
      for (Node target : machine.nodes(type)) {
        path(source, graphs.routes().paths().path(source, target));
      }
      json.writeEndArray();
    }
    json.writeEndObject();
  }

  private void path(Node source, Path path) throws IOException {
    long own = IntStream.range(0, path.hops()).filter(hop -> isOwn(source, path, hop)).count();
    json.writeStartArray();
    json.writeString(path.type().name());
    json.writeNumber(path.bandwidth());
    json.writeNumber(path.hops() - own);
    json.writeNumber(path.hops());
    json.writeEndArray();
  }

  /** True if a link is between a GPU's rank and its device, which others do not count. */
  private static boolean isOwn(Node source, Path path, int hop) {
    Node from = hop == 0 ? source : path.node(hop - 1);
    boolean ofGpu = from.type() == NodeType.GPU || path.node(hop).type() == NodeType.GPU;
    return ofGpu && path.link(hop).type() == LinkType.LOC;
  }

  private void system() throws IOException {
    json.writeObjectFieldStart("system");
    json.writeNumberField("nHosts", machine.hosts());
    json.writeNumberField("inter", graphs.inter() ? 1 : 0);
    json.writeNumberField("maxBw", graphs.maxBandwidth());
    json.writeNumberField("totalBw", graphs.totalBandwidth());
    json.writeArrayFieldStart("nodes");
    for (Node node : machine.nodes()) {
      json.writeStartObject();
      json.writeStringField("n", node.toString());
      json.writeStringField("type", node.type().name());
      json.writeArrayFieldStart("links");
      for (Link link : node.links()) {
        json.writeStartArray();
        json.writeString(link.type().name());
        json.writeNumber(link.bandwidth());
        json.writeString(link.to().toString());
        json.writeEndArray();
      }
      json.writeEndArray();
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeEndObject();
  }
}
