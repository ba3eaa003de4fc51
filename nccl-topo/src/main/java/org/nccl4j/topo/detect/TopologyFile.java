package org.nccl4j.topo.detect;

import java.nio.file.Path;
import java.util.Optional;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * The topology file of a machine. With GPUs it replaces the detection, except that of networks
 * where it has none. Without GPUs it is the start of the detection, such as the PCI tree that a
 * cloud's virtual machines do not see.
 *
 * @param path of the file
 * @param system its top element
 */
public record TopologyFile(Path path, XmlElement system) {
  /**
   * The file that the user names, else the hypervisor's; empty if there is none.
   *
   * @throws org.nccl4j.topo.TopologyException if it cannot be read
   */
  public static Optional<TopologyFile> of(Optional<Path> named, SysFiles files) {
    return named.or(files::virtualTopology).map(TopologyFile::read);
  }

  /** Reads a file; throws as {@link #of} does. */
  public static TopologyFile read(Path path) {
    return new TopologyFile(path, TopologyXml.readSystem(path));
  }

  /** True if it has GPUs, and so replaces the detection. */
  public boolean isWhole() {
    return has(system, "gpu");
  }

  /** True if it has networks. */
  public boolean hasNets() {
    return has(system, "net");
  }

  private static boolean has(XmlElement element, String tag) {
    return element.is(tag) || element.children().stream().anyMatch(child -> has(child, tag));
  }
}
