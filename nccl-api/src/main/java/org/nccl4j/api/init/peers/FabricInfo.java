package org.nccl4j.api.init.peers;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HexFormat;
import java.util.Optional;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.device.cuda.nvml.NvmlFabric;
import org.nccl4j.topo.PathType;

/**
 * The NVLink fabric of a rank's GPU, as the rank sends it to the others.
 *
 * @param clique the same for all ranks whose GPUs the fabric connects; "" for none
 * @param problem why there is no clique, or why it cannot be used; else ""
 * @param handle of memory that others may try to map; empty where there is none
 * @param bytes of that memory
 */
record FabricInfo(String clique, String problem, byte[] handle, long bytes) {
  private static final long BY_DRIVER = -1;
  private static final long BY_CHASSIS = -2;

  /** Begins the clique of a fabric that ends at its machine. */
  private static final String MACHINE = "machine ";

  private static FabricInfo none(String why) {
    return new FabricInfo("", why, new byte[0], 0);
  }

  /** The same with memory to try. */
  FabricInfo with(byte[] fabricHandle, long size) {
    return new FabricInfo(clique, problem, fabricHandle, size);
  }

  /** The same, with something in the way. */
  FabricInfo hindered(String why) {
    return new FabricInfo(clique, why, new byte[0], 0);
  }

  /**
   * Returns the fabric information of the driver and the settings, before anything is tried.
   *
   * @param shares whether a transport of the rank shares memory
   * @param machine the rank's machine if containers of a machine share no memory otherwise, else ""
   */
  static FabricInfo of(CudaDevice device, Settings settings, boolean shares, String machine) {
    Optional<String> against =
        against(settings, shares).or(() -> instance(device)).or(device::sharingAbsence);
    if (against.isPresent()) {
      return none(against.get());
    }
    NvmlFabric fabric = Nvml.probe().fabric(device.pciBusId());
    if (fabric.absence().isPresent()) {
      return none(fabric.absence().get());
    }
    long uuid = settings.get(GpuSettings.NCCL_MNNVL_UUID);
    boolean ends = uuid == BY_DRIVER && !fabric.isOfSeveralHosts();
    if (ends && machine.isEmpty()) {
      return none("its NVLink fabric ends at its machine (the cluster's number is zero)");
    }
    String cluster =
        ends
            ? MACHINE + machine
            : uuid == BY_DRIVER ? fabric.clusterUuid() : Long.toHexString(uuid);
    long id = settings.get(GpuSettings.NCCL_MNNVL_CLIQUE_ID);
    if (id == BY_CHASSIS) {
      return Nvml.probe()
          .chassis(device.pciBusId())
          .map(serial -> in(cluster, "chassis " + serial))
          .orElseGet(() -> none("NCCL_MNNVL_CLIQUE_ID=-2, and the driver knows no chassis"));
    }
    return in(cluster, Long.toString(id == BY_DRIVER ? fabric.cliqueId() & 0xffffffffL : id));
  }

  /** True if the clique is of a fabric that ends at its machine. */
  boolean endsAtMachine() {
    return clique.startsWith(MACHINE);
  }

  private static Optional<String> instance(CudaDevice device) {
    return device.isInstance()
        ? Optional.of(device + " is an instance of a GPU (MIG), without NVLinks")
        : Optional.empty();
  }

  private static FabricInfo in(String cluster, String clique) {
    return new FabricInfo(cluster + "." + clique, "", new byte[0], 0);
  }

  private static Optional<String> against(Settings settings, boolean shares) {
    if (settings.get(GpuSettings.NCCL_MNNVL_ENABLE) == 0) {
      return Optional.of("NCCL_MNNVL_ENABLE=0");
    }
    if (settings.get(Settings.NCCL_P2P_DISABLE)) {
      return Optional.of("NCCL_P2P_DISABLE is set");
    }
    if (settings.get(TopologySettings.NCCL_P2P_LEVEL).equals(Optional.of(PathType.LOC))) {
      return Optional.of("NCCL_P2P_LEVEL=LOC");
    }
    if (!settings.get(GpuSettings.NCCL_CUMEM_ENABLE)) {
      return Optional.of("NCCL_CUMEM_ENABLE=0");
    }
    return shares
        ? Optional.empty()
        : Optional.of("no transport in NCCL4J_TRANSPORTS shares memory (P2P does)");
  }

  byte[] toBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeUTF(clique);
      out.writeUTF(problem);
      out.writeUTF(HexFormat.of().formatHex(handle));
      out.writeLong(bytes());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  static FabricInfo fromBytes(int rank, byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      return new FabricInfo(
          in.readUTF(), in.readUTF(), HexFormat.of().parseHex(in.readUTF()), in.readLong());
    } catch (IOException | IllegalArgumentException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "rank %d sent facts of its NVLink fabric that this rank cannot read (%s)"
              .formatted(rank, e),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }
}
