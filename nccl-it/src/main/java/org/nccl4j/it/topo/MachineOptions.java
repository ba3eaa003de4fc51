package org.nccl4j.it.topo;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.it.file.OutputFile;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.detect.NicFusion;
import org.nccl4j.topo.detect.SysFiles;
import org.nccl4j.topo.detect.TopologyFile;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.GraphFile;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The common options of all {@code topo} commands: the machine and the settings. */
final class MachineOptions {
  /** The driver's answer about peer access. */
  enum DriverAnswer {
    ask,
    on,
    off
  }

  /** Names of usual machines. */
  static final class Machines extends ArrayList<String> {
    private static final long serialVersionUID = 1L;

    /** Called by picocli. */
    Machines() {
      super(MachineFile.NAMES);
    }
  }

  private static final Path HERE = Path.of("/");

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = "--file",
      paramLabel = "FILE",
      description =
          "A topology file as NCCL_TOPO_DUMP_FILE writes it, or, if there is no such file, the name"
              + " of a usual machine: ${COMPLETION-CANDIDATES}; default: this machine.",
      completionCandidates = Machines.class)
  private Path file;

  @Option(
      names = "--root",
      paramLabel = "DIRECTORY",
      description =
          "The directory of sys and proc of a recorded machine; default: /. Comes before"
              + " NCCL_TOPO_FILE.")
  private Path root;

  @Option(names = "--json", description = "Print JSON.")
  private boolean json;

  @Option(
      names = "--p2p-status",
      paramLabel = "ANSWER",
      defaultValue = "ask",
      description =
          "The driver's answer about peer access: ${COMPLETION-CANDIDATES}; default: on with a"
              + " file, else the driver's own answer.")
  private DriverAnswer peerAccess = DriverAnswer.ask;

  @Option(
      names = "--set",
      paramLabel = "NAME=VALUE",
      description = "A setting such as NCCL_CROSS_NIC=1; comes before the environment.")
  private Map<String, String> set = new HashMap<>();

  private LiveMachine live;

  /** Null until it is asked for. */
  private Optional<TopologyFile> given;

  /**
   * Checks the options and settings that were given.
   *
   * @throws InvalidArgumentException if there is no such setting, value or folder
   */
  void check() {
    refuse(file != null && root != null, "--root", "--file", "leave one of them out");
    if (root != null && !Files.isDirectory(root.resolve("sys"))) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          Files.isDirectory(root)
              ? "--root %s has no folder sys".formatted(root)
              : "--root: there is no folder " + root,
          "name the folder that has sys and proc of a recorded machine");
    }
    values();
  }

  /** Refuses an option that would have no effect. */
  void refuse(boolean given, String option, String beside, String remedy) {
    if (given) {
      throw new ParameterException(
          spec.commandLine(), "%s has no effect beside %s: %s".formatted(option, beside, remedy));
    }
  }

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
    return file == null ? "this machine" : MachineFile.label(file);
  }

  TopoSettings settings() {
    return values().topology();
  }

  /** The value of a setting if it is set. */
  <T> Optional<T> find(Setting<T> setting) {
    return values().find(setting);
  }

  /** All settings. */
  Settings values() {
    return Settings.ofProcess("--set", set);
  }

  ClusterOptions options(boolean collNet) {
    PeerStatus status = PeerStatus.ALLOWED;
    if (peerAccess == DriverAnswer.off) {
      status = PeerStatus.FORBIDDEN;
    } else if (peerAccess == DriverAnswer.ask && isLive()) {
      status = Nvml.probe()::allowsPeers;
    }
    return new ClusterOptions(settings(), status, collNet);
  }

  Routes routes(boolean collNet) throws IOException {
    return Cluster.routes(system(), options(collNet));
  }

  /** Clusters of so many such machines; writes what NCCL_GRAPH_DUMP_FILE asks for of the first. */
  List<Cluster> clusters(List<Integer> nodes, ClusterOptions options) throws IOException {
    for (int count : nodes) {
      if (count < 1) {
        throw new ParameterException(
            spec.commandLine(), "--nodes %d is out of range: use 1 or more".formatted(count));
      }
    }
    Routes routes = Cluster.routes(system(), options);
    List<Cluster> clusters = new ArrayList<>();
    for (int count : nodes) {
      clusters.add(Cluster.of(routes, count, options));
    }
    Optional<String> dump = find(Settings.NCCL_GRAPH_DUMP_FILE);
    if (dump.isPresent()) {
      int rank = values().get(Settings.NCCL_GRAPH_DUMP_FILE_RANK);
      MachineGraphs graphs = domainOf(clusters.get(0), rank);
      OutputFile.write(
          Settings.NCCL_GRAPH_DUMP_FILE.name(),
          SettingFile.path(Settings.NCCL_GRAPH_DUMP_FILE, dump.get()),
          TopologyXml.write(GraphFile.write(graphs)));
    }
    return clusters;
  }

  Cluster cluster(int nodes) throws IOException {
    return clusters(List.of(nodes), options(false)).get(0);
  }

  private static MachineGraphs domainOf(Cluster cluster, int rank) {
    for (MachineGraphs domain : cluster.domains()) {
      if (domain.routes().machine().gpuOfRank(rank).isPresent()) {
        return domain;
      }
    }
    throw new TopologyException(
        "no graph can be written",
        "NCCL_GRAPH_DUMP_FILE_RANK=" + rank,
        "the machine has no such rank",
        "name one of its " + cluster.whole().machine().gpus().size() + " ranks");
  }

  /** The machine, with networks fused as the plug-in does; writes NCCL_TOPO_DUMP_FILE. */
  private XmlElement system() throws IOException {
    XmlElement found = found();
    refuseWithoutGpus();
    return isLive() && live().fusible() ? NicFusion.fuse(found, settings()) : found;
  }

  /** Paths, graphs and trees are those of GPUs. */
  void refuseWithoutGpus() {
    if (isLive() && live().gpus() == 0) {
      throw new TopologyException(
          "the topology of %s has no GPU, neither on PCI nor from the driver, and %s needs GPUs"
              .formatted(
                  root == null ? "this machine" : "the machine of " + root,
                  spec.qualifiedName(" ").replaceFirst("^nccl ", "")),
          root == null ? "this machine" : root.toString(),
          "describe another machine with --file or NCCL_TOPO_FILE, or run the command on one with"
              + " GPUs; nccl topo detect prints a topology without GPUs too");
    }
  }

  /**
   * The file that was named, or this machine's file with what it lacks, or detection with every
   * port on its own; writes it to NCCL_TOPO_DUMP_FILE.
   */
  XmlElement found() throws IOException {
    XmlElement found = isLive() ? live().system() : fromFile(given().orElseThrow());
    Optional<String> dump = find(Settings.NCCL_TOPO_DUMP_FILE);
    if (dump.isPresent()) {
      OutputFile.write(
          Settings.NCCL_TOPO_DUMP_FILE.name(),
          SettingFile.path(Settings.NCCL_TOPO_DUMP_FILE, dump.get()),
          TopologyXml.write(found));
    }
    return found;
  }

  private XmlElement fromFile(TopologyFile whole) {
    return file == null ? LiveMachine.of(root(), whole, values()) : whole.system();
  }

  /** Returns the origin of the GPUs, as a sentence. */
  String gpusFrom() {
    return isLive() ? live().gpusFrom() : "the file " + given().orElseThrow().path();
  }

  private Optional<TopologyFile> given() {
    if (given == null) {
      given =
          file != null
              ? Optional.of(new TopologyFile(file, MachineFile.read(file)))
              : TopologyFile.of(
                  root == null
                      ? find(Settings.NCCL_TOPO_FILE)
                          .map(text -> SettingFile.path(Settings.NCCL_TOPO_FILE, text))
                      : Optional.empty(),
                  new SysFiles(root()));
    }
    return given;
  }

  private Path root() {
    return root == null ? HERE : root;
  }

  /** A file that was named may be another machine's; this machine's may be a start alone. */
  private boolean isLive() {
    return file == null && given().filter(TopologyFile::isWhole).isEmpty();
  }

  private LiveMachine live() {
    if (live == null) {
      live = LiveMachine.of(root(), given(), values());
      live.doubt().ifPresent(doubt -> err().println("note: " + doubt));
    }
    return live;
  }
}
