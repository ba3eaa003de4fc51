package org.nccl4j.device.cuda;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.device.cuda.nvml.NvmlGpu;

/**
 * NVLinks where the management library is missing. The driver says between which GPUs the hardware
 * has atomics, as NVLink does and PCIe does not. It does not report the number of links, so a GPU
 * is assumed to have all of its generation, evenly over the GPUs that it is linked to. Nothing is
 * known of GPUs that the process does not see.
 */
public final class NvlinkFallback {
  private NvlinkFallback() {}

  /**
   * Returns a GPU's number of NVLinks by the PCI address of the other end, or of an unseen switch.
   * Safe from any thread.
   */
  public static Map<String, Integer> of(CudaDevice device) {
    List<CudaDevice> all = CudaDevices.probe().list();
    List<String> linked =
        all.stream()
            .filter(other -> other != device && hasNvlink(device, other))
            .map(CudaDevice::pciBusId)
            .toList();
    boolean everyPair =
        all.stream().allMatch(one -> all.stream().allMatch(other -> hasNvlink(one, other)));
    return share(device.computeCapability(), linked, everyPair);
  }

  private static boolean hasNvlink(CudaDevice one, CudaDevice other) {
    return one.nvlink(other.id()).orElse(false);
  }

  /**
   * Shares links out.
   *
   * @param linked addresses of the GPUs that the GPU is linked to
   * @param everyPair whether all GPUs are linked to all others, as by a switch
   */
  static Map<String, Integer> share(int capability, List<String> linked, boolean everyPair) {
    int links = most(capability);
    if (linked.isEmpty() || links == 0) {
      return Map.of();
    }
    if (everyPair && linked.size() > 1) {
      return Map.of(NvmlGpu.UNSEEN, links);
    }
    Map<String, Integer> shares = new TreeMap<>();
    linked.forEach(peer -> shares.put(peer, Math.max(1, links / linked.size())));
    return shares;
  }

  /** Returns the most NVLinks of a GPU generation. Graphics GPUs have fewer or none. */
  private static int most(int capability) {
    return switch (capability) {
      case 75 -> 2;
      case 86 -> 4;
      case 89, 120, 121 -> 0;
      default -> Nvml.mostLinks(capability);
    };
  }
}
