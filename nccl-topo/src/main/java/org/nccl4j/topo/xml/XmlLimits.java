package org.nccl4j.topo.xml;

/**
 * The limits of a file before it is refused. The defaults fit a rack of 576 GPUs and are far below
 * harmful sizes.
 *
 * @param bytes the size of the file
 * @param elements how many elements
 * @param depth how deep they nest
 * @param attributes how many an element has
 * @param text the length of a name or value
 */
public record XmlLimits(int bytes, int elements, int depth, int attributes, int text) {
  /** Limits for topology and graph files. */
  public static final XmlLimits DEFAULT = new XmlLimits(16 << 20, 1 << 16, 64, 64, 4096);
}
