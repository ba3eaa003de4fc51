package org.nccl4j.device.cuda.nvml;

import java.util.Map;

/**
 * A GPU as the driver's management library describes it. It sees all GPUs of a machine, whatever
 * CUDA_VISIBLE_DEVICES says, in the order of their addresses.
 *
 * @param index its number there
 * @param busId its PCI address as in /sys, such as 0000:1b:00.0
 * @param computeCapability times ten, such as 90
 * @param nvLinks how many active NVLinks lead to which PCI address; {@link #UNSEEN} for what a
 *     virtual machine does not show
 * @param c2cMbps what one active C2C link carries, in MB/s; 0 without
 * @param c2cLinks how many C2C links are active
 */
public record NvmlGpu(
    int index,
    String busId,
    int computeCapability,
    Map<String, Integer> nvLinks,
    int c2cMbps,
    int c2cLinks) {
  /** The address of a far end that cannot be seen; the NCCL word for it. */
  public static final String UNSEEN = "fffffff:ffff:ff";

  /** Copies the map. */
  public NvmlGpu {
    nvLinks = Map.copyOf(nvLinks);
  }
}
