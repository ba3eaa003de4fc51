package org.nccl4j.it.top;

import java.util.List;

/**
 * A host's machine with the traffic of one frame over its links.
 *
 * @param svg its picture, whose links have the ids of these
 * @param links all links of the picture
 * @param notes what is not known, in sentences
 */
record HostTraffic(String host, String svg, List<LinkTraffic> links, List<String> notes) {
  /**
   * A link of the machine.
   *
   * @param id in the picture
   * @param name for people
   * @param capacity GB/s one way; 0 if that is not known
   * @param there GB/s in the order of the ids of its ends
   * @param back GB/s the other way
   * @param flows ranks' traffic over it, in sentences
   */
  record LinkTraffic(
      String id, String name, double capacity, double there, double back, List<String> flows) {}
}
