package org.nccl4j.topo.detect;

import java.util.Map;

/**
 * The driver's facts about a GPU.
 *
 * @param busId the PCI address, such as 0000:1b:00.0
 * @param dev the driver's number
 * @param rank the rank that uses it, or -1 to number ranks by device
 * @param sm the compute capability, such as 90
 * @param gdr whether network cards may access its memory
 * @param nvLinks number of NVLinks by PCI address of the other end; {@link #UNSEEN} for a switch
 *     that a virtual machine does not show
 * @param c2cMbps bandwidth of one C2C link, in MB/s
 * @param c2cLinks number of C2C links
 */
public record GpuFacts(
    String busId,
    int dev,
    int rank,
    int sm,
    boolean gdr,
    Map<String, Integer> nvLinks,
    int c2cMbps,
    int c2cLinks) {
  /** The address of a switch that cannot be seen. */
  public static final String UNSEEN = "fffffff:ffff:ff";

  /** Copies the map. */
  public GpuFacts {
    nvLinks = Map.copyOf(nvLinks);
  }

  /** The same GPU for a rank. */
  public GpuFacts withRank(int user) {
    return new GpuFacts(busId, dev, user, sm, gdr, nvLinks, c2cMbps, c2cLinks);
  }
}
