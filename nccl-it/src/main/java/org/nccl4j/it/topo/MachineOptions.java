package org.nccl4j.it.topo;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.nccl4j.api.settings.Environment;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.detect.Detection;
import org.nccl4j.topo.detect.GpuScan;
import org.nccl4j.topo.detect.HostFacts;
import org.nccl4j.topo.detect.KernelFiles;
import org.nccl4j.topo.detect.NetworkScan;
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

  private static final Path VIRTUAL_TOPOLOGY =
      Path.of("/var/run/nvidia-topologyd/virtualTopology.xml");

  private static final long LOCAL_HOST = 1;

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = "--file",
      description = "A topology file as NCCL_TOPO_DUMP_FILE writes it; default: this machine.")
  private Path file;

  @Option(
      names = "--root",
      defaultValue = "/",
      description = "Where sys and proc are, for a recorded machine; default: /.")
  private Path root = Path.of("/");

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

  PrintWriter err() {
    return spec.commandLine().getErr();
  }

  String name() {
    return file == null ? "this machine" : String.valueOf(file.getFileName());
  }

  TopoSettings settings() {
    Map<String, String> values = new HashMap<>();
    Environment.ofProcess(set).all().forEach((name, value) -> values.put(name, value.text()));
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

  /** The file that was named, or NCCL_TOPO_FILE, or what a hypervisor says, or detection. */
  XmlElement system() {
    Path named =
        file != null
            ? file
            : settings().text("NCCL_TOPO_FILE").map(Path::of).orElse(VIRTUAL_TOPOLOGY);
    if (named != VIRTUAL_TOPOLOGY || Files.isReadable(VIRTUAL_TOPOLOGY)) {
      return TopologyXml.readSystem(named);
    }
    KernelFiles files = new KernelFiles(root);
    return Detection.of(files, new HostFacts(LOCAL_HOST, GpuScan.of(files), NetworkScan.of(files)));
  }
}
