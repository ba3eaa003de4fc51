package org.nccl4j.it.topo;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.Devices;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.cuda.NvlinkFallback;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.topo.detect.Detection;
import org.nccl4j.topo.detect.GpuFacts;
import org.nccl4j.topo.detect.GpuScan;
import org.nccl4j.topo.detect.HostFacts;
import org.nccl4j.topo.detect.NetFacts;
import org.nccl4j.topo.detect.NetworkScan;
import org.nccl4j.topo.detect.SysFiles;
import org.nccl4j.topo.detect.TopologyFile;
import org.nccl4j.topo.xml.XmlElement;
import org.nccl4j.transport.net.AllowedNics;

/**
 * This machine, or a recorded one, as it is found: GPUs and their links from the driver's
 * management library, without it from PCI and the atomics between them; everything else from the
 * kernel's files.
 *
 * @param system the topology, with each port of a network card on its own
 * @param gpusFrom where the GPUs come from, as a sentence
 * @param doubt what is not known of the GPUs and why; empty where all is
 * @param gpus how many GPUs there are
 * @param fusible whether their plug-in can send over several as one
 */
record LiveMachine(
    XmlElement system, String gpusFrom, Optional<String> doubt, int gpus, boolean fusible) {
  private static final Path HERE = Path.of("/");
  private static final long LOCAL_HOST = 1;

  /**
   * The machine below a root.
   *
   * @param start its topology file, if there is one; without GPUs
   * @param settings that allow network cards
   */
  static LiveMachine of(Path root, Optional<TopologyFile> start, Settings settings) {
    SysFiles files = new SysFiles(root);
    List<NetFacts> nets = nets(files, settings);
    // Interfaces have no port number; only InfiniBand's ports can be fused.
    boolean fusible = nets.stream().allMatch(net -> net.port() > 0);
    if (!root.toAbsolutePath().normalize().equals(HERE)) {
      List<GpuFacts> gpus = GpuScan.of(files);
      XmlElement system = detected(files, gpus, nets, start);
      String from = "PCI, without NVLinks (recorded)";
      return new LiveMachine(system, from, Optional.empty(), gpus.size(), fusible);
    }
    Optional<String> absence = Nvml.probe().absence();
    List<GpuFacts> gpus = absence.isPresent() ? withoutNvml(GpuScan.of(files)) : byNvml();
    XmlElement system = detected(files, gpus, nets, start);
    return new LiveMachine(
        system,
        absence
            .map(why -> "PCI, and NVLinks derived from the atomics between GPUs: " + why)
            .orElse("the driver's management library (NVML)"),
        gpus.isEmpty() ? Optional.empty() : absence.map(LiveMachine::doubt),
        gpus.size(),
        fusible);
  }

  /**
   * A topology file with GPUs, and if it has no network, with those of this machine.
   *
   * @param settings that allow network cards
   */
  static XmlElement of(Path root, TopologyFile whole, Settings settings) {
    SysFiles files = new SysFiles(root);
    return whole.hasNets()
        ? whole.system()
        : detected(files, List.of(), nets(files, settings), Optional.of(whole));
  }

  private static List<NetFacts> nets(SysFiles files, Settings settings) {
    return NetworkScan.of(files, net -> isAllowed(settings, net));
  }

  private static boolean isAllowed(Settings settings, NetFacts net) {
    return net.port() > 0
        ? AllowedNics.allowsPort(settings, net.name(), net.port())
        : AllowedNics.allowsInterface(settings, net.name());
  }

  private static XmlElement detected(
      SysFiles files, List<GpuFacts> gpus, List<NetFacts> nets, Optional<TopologyFile> start) {
    HostFacts facts = new HostFacts(LOCAL_HOST, gpus, nets);
    return start
        .map(file -> Detection.of(files, facts, file.system()))
        .orElseGet(() -> Detection.of(files, facts));
  }

  private static String doubt(String absence) {
    return "NVML is missing ("
        + absence
        + "): NVLinks are derived from the atomics between GPUs, C2C links are left out. Install"
        + " libnvidia-ml.so.1; in a container set"
        + " NVIDIA_DRIVER_CAPABILITIES=compute,utility";
  }

  private static List<GpuFacts> byNvml() {
    return Nvml.probe().gpus().stream()
        .map(
            gpu ->
                new GpuFacts(
                    gpu.busId(),
                    gpu.index(),
                    gpu.index(),
                    gpu.computeCapability(),
                    true,
                    gpu.nvLinks(),
                    gpu.c2cMbps(),
                    gpu.c2cLinks()))
        .toList();
  }

  /** The GPUs that PCI shows, with the CUDA driver's facts of those that this process sees. */
  private static List<GpuFacts> withoutNvml(List<GpuFacts> scanned) {
    List<GpuFacts> gpus = new ArrayList<>();
    for (GpuFacts gpu : scanned) {
      gpus.add(
          Devices.cuda()
              .find(gpu.busId())
              .map(
                  device ->
                      new GpuFacts(
                          gpu.busId(),
                          gpu.dev(),
                          gpu.rank(),
                          device.computeCapability(),
                          gpu.gdr(),
                          NvlinkFallback.of(device),
                          0,
                          0))
              .orElse(gpu));
    }
    return gpus;
  }
}
