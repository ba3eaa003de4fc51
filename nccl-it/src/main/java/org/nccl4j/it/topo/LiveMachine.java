package org.nccl4j.it.topo;

import java.nio.file.Path;
import java.util.List;
import org.nccl4j.device.cuda.Nvml;
import org.nccl4j.topo.detect.Detection;
import org.nccl4j.topo.detect.GpuFacts;
import org.nccl4j.topo.detect.GpuScan;
import org.nccl4j.topo.detect.HostFacts;
import org.nccl4j.topo.detect.KernelFiles;
import org.nccl4j.topo.detect.NetFacts;
import org.nccl4j.topo.detect.NetworkScan;
import org.nccl4j.topo.xml.XmlElement;

/**
 * This machine, or a recorded one, as it is found: GPUs and their links from the driver's
 * management library, without it from PCI alone; everything else from the kernel's files.
 *
 * @param system the topology, with each port of a network card on its own
 * @param gpusFrom where the GPUs come from, as a sentence
 * @param networks how many networks there are
 * @param fusible whether their plug-in can send over several as one
 */
record LiveMachine(XmlElement system, String gpusFrom, int networks, boolean fusible) {
  private static final Path HERE = Path.of("/");
  private static final long LOCAL_HOST = 1;

  static LiveMachine of(Path root) {
    KernelFiles files = new KernelFiles(root);
    List<NetFacts> nets = NetworkScan.of(files);
    // Interfaces have no port number; only InfiniBand's ports can be fused.
    boolean fusible = nets.stream().allMatch(net -> net.port() > 0);
    if (!root.toAbsolutePath().normalize().equals(HERE)) {
      List<GpuFacts> gpus = GpuScan.of(files);
      XmlElement system = Detection.of(files, new HostFacts(LOCAL_HOST, gpus, nets));
      return new LiveMachine(system, "PCI, without NVLinks (recorded)", nets.size(), fusible);
    }
    Nvml nvml = Nvml.probe();
    List<GpuFacts> gpus =
        nvml.absence().isPresent()
            ? GpuScan.of(files)
            : nvml.gpus().stream()
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
    String from =
        nvml.absence()
            .map(why -> "PCI, without NVLinks: " + why)
            .orElse("the driver's management library (NVML)");
    XmlElement system = Detection.of(files, new HostFacts(LOCAL_HOST, gpus, nets));
    return new LiveMachine(system, from, nets.size(), fusible);
  }
}
