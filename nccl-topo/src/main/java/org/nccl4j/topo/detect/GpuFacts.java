package org.nccl4j.topo.detect;

import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.nccl4j.topo.xml.XmlElement;

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
 * @param forbiddenPeers PCI addresses of the host's GPUs to which the driver forbids peer access
 */
public record GpuFacts(
    String busId,
    int dev,
    int rank,
    int sm,
    boolean gdr,
    Map<String, Integer> nvLinks,
    int c2cMbps,
    int c2cLinks,
    Set<String> forbiddenPeers) {
  /** The address of a switch that cannot be seen. */
  public static final String UNSEEN = "fffffff:ffff:ff";

  /** Copies the map and the set. */
  public GpuFacts {
    nvLinks = Map.copyOf(nvLinks);
    forbiddenPeers = Set.copyOf(forbiddenPeers);
  }

  /** A GPU with peer access to all others. */
  public GpuFacts(
      String busId,
      int dev,
      int rank,
      int sm,
      boolean gdr,
      Map<String, Integer> nvLinks,
      int c2cMbps,
      int c2cLinks) {
    this(busId, dev, rank, sm, gdr, nvLinks, c2cMbps, c2cLinks, Set.of());
  }

  /** The same GPU for a rank. */
  public GpuFacts withRank(int user) {
    return new GpuFacts(busId, dev, user, sm, gdr, nvLinks, c2cMbps, c2cLinks, forbiddenPeers);
  }

  /** Writes the forbidden peers, if there are any, into the GPU's element of a topology. */
  public void writePeers(XmlElement gpu) {
    if (!forbiddenPeers.isEmpty()) {
      gpu.set("nopeers", String.join(",", new TreeSet<>(forbiddenPeers)));
    }
  }
}
