package org.nccl4j.it.topo;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** What all {@code topo} commands ask: which machine, and under which settings. */
final class MachineOptions {
  /** How the driver answers when asked for peer access. */
  enum DriverAnswer {
    on,
    off
  }

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = "--file",
      description = "A topology file as NCCL_TOPO_DUMP_FILE writes it; default: this machine.")
  private Path file;

  @Option(names = "--json", description = "Print JSON.")
  private boolean json;

  @Option(
      names = "--p2p-status",
      defaultValue = "on",
      description = "What the driver says of peer access: ${COMPLETION-CANDIDATES}.")
  private DriverAnswer peerAccess = DriverAnswer.on;

  @Option(
      names = "--set",
      description = "A setting such as NCCL_CROSS_NIC=1; comes before the environment.")
  private Map<String, String> set = new HashMap<>();

  boolean json() {
    return json;
  }

  PrintWriter out() {
    return spec.commandLine().getOut();
  }

  String name() {
    return file == null ? "this machine" : String.valueOf(file.getFileName());
  }

  TopoSettings settings() {
    Map<String, String> values = new HashMap<>();
    Environment.get()
        .forEach(
            (key, value) -> {
              if (key.startsWith("NCCL")) {
                values.put(key, value);
              }
            });
    values.putAll(set);
    return new TopoSettings(values);
  }

  ClusterOptions options(boolean collNet) {
    PeerStatus status = peerAccess == DriverAnswer.on ? PeerStatus.ALLOWED : PeerStatus.FORBIDDEN;
    return new ClusterOptions(settings(), status, collNet);
  }

  Routes routes(boolean collNet) {
    return Cluster.routes(system(), options(collNet));
  }

  XmlElement system() {
    return TopologyXml.readSystem(file);
  }
}
