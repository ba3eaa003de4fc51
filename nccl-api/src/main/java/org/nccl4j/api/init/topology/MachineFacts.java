package org.nccl4j.api.init.topology;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.nccl4j.api.init.peers.LocalIdentity;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.NvlinkFallback;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.device.cuda.nvml.NvmlGpu;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.detect.GpuFacts;
import org.nccl4j.topo.detect.SysFiles;
import org.nccl4j.topo.detect.TopologyFile;

/**
 * One rank's contribution to the topology of its machine.
 *
 * @param container the same for ranks that see the same files and networks
 * @param gpu its GPU; empty on the host device
 * @param fromFile true with a topology file that replaces the detection
 * @param netsFromFile true if that file has networks; else the detection adds them
 * @param dumps true if it has to write the topology or the graphs to a file
 */
record MachineFacts(
    String container,
    Optional<GpuFacts> gpu,
    boolean fromFile,
    boolean netsFromFile,
    boolean dumps) {

  static MachineFacts of(Device device, Settings settings, SysFiles files) {
    Optional<GpuFacts> gpu =
        device instanceof CudaDevice cuda ? Optional.of(gpu(cuda, settings)) : Optional.empty();
    return new MachineFacts(
        LocalIdentity.container(),
        gpu,
        isFromFile(settings, files, gpu.isPresent(), TopologyFile::isWhole),
        isFromFile(settings, files, gpu.isPresent(), file -> file.isWhole() && file.hasNets()),
        settings.isSet(Settings.NCCL_TOPO_DUMP_FILE)
            || settings.isSet(Settings.NCCL_GRAPH_DUMP_FILE));
  }

  /** A file that cannot be read is an error for the rank that describes the machine. */
  private static boolean isFromFile(
      Settings settings, SysFiles files, boolean gpus, Predicate<TopologyFile> which) {
    try {
      return file(settings, files, gpus).filter(which).isPresent();
    } catch (TopologyException e) {
      return true;
    }
  }

  /** The file in NCCL_TOPO_FILE, else for GPUs the hypervisor's. */
  static Optional<TopologyFile> file(Settings settings, SysFiles files, boolean gpus) {
    Optional<Path> named =
        settings
            .find(Settings.NCCL_TOPO_FILE)
            .map(text -> SettingFile.path(Settings.NCCL_TOPO_FILE, text));
    return gpus || named.isPresent() ? TopologyFile.of(named, files) : Optional.empty();
  }

  /** From the management library; where it is missing, links as peers' atomics show them. */
  private static GpuFacts gpu(CudaDevice device, Settings settings) {
    Nvml nvml = Nvml.probe();
    NvmlGpu found =
        nvml.gpu(device.pciBusId())
            .orElseGet(
                () ->
                    new NvmlGpu(
                        device.index(),
                        device.pciBusId(),
                        device.computeCapability(),
                        NvlinkFallback.of(device),
                        0,
                        0));
    return new GpuFacts(
        found.busId(),
        found.index(),
        -1,
        device.computeCapability(),
        device.gpu().gpuDirect().absence().isEmpty(),
        device.isInstance() ? Map.of() : found.nvLinks(),
        found.c2cMbps(),
        found.c2cLinks(),
        settings.topology().get(TopoSettings.NCCL_IGNORE_DISABLED_P2P) == 2
            ? Set.of()
            : forbiddenPeers(nvml, found.index()));
  }

  private static Set<String> forbiddenPeers(Nvml nvml, int index) {
    return nvml.gpus().stream()
        .filter(other -> !nvml.allowsPeers(index, other.index()))
        .map(NvmlGpu::busId)
        .collect(Collectors.toSet());
  }

  byte[] toBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeUTF(container);
      out.writeBoolean(fromFile);
      out.writeBoolean(netsFromFile);
      out.writeBoolean(dumps);
      out.writeBoolean(gpu.isPresent());
      if (gpu.isPresent()) {
        write(out, gpu.get());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  private static void write(DataOutputStream out, GpuFacts gpu) throws IOException {
    out.writeUTF(gpu.busId());
    out.writeInt(gpu.dev());
    out.writeInt(gpu.sm());
    out.writeBoolean(gpu.gdr());
    out.writeInt(gpu.c2cMbps());
    out.writeInt(gpu.c2cLinks());
    out.writeShort(gpu.nvLinks().size());
    for (Map.Entry<String, Integer> link : new TreeMap<>(gpu.nvLinks()).entrySet()) {
      out.writeUTF(link.getKey());
      out.writeInt(link.getValue());
    }
    out.writeShort(gpu.forbiddenPeers().size());
    for (String peer : new TreeSet<>(gpu.forbiddenPeers())) {
      out.writeUTF(peer);
    }
  }

  static MachineFacts fromBytes(int rank, byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      String container = in.readUTF();
      boolean fromFile = in.readBoolean();
      boolean netsFromFile = in.readBoolean();
      boolean dumps = in.readBoolean();
      Optional<GpuFacts> gpu = in.readBoolean() ? Optional.of(read(in)) : Optional.empty();
      return new MachineFacts(container, gpu, fromFile, netsFromFile, dumps);
    } catch (IOException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "rank %d sent facts of its machine that this rank cannot read (%s)".formatted(rank, e),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  private static GpuFacts read(DataInputStream in) throws IOException {
    String busId = in.readUTF();
    int dev = in.readInt();
    int sm = in.readInt();
    boolean gdr = in.readBoolean();
    int c2cMbps = in.readInt();
    int c2cLinks = in.readInt();
    Map<String, Integer> links = new TreeMap<>();
    for (int link = in.readShort(); link > 0; link--) {
      links.put(in.readUTF(), in.readInt());
    }
    Set<String> forbidden = new TreeSet<>();
    for (int peer = in.readShort(); peer > 0; peer--) {
      forbidden.add(in.readUTF());
    }
    return new GpuFacts(busId, dev, -1, sm, gdr, links, c2cMbps, c2cLinks, forbidden);
  }
}
