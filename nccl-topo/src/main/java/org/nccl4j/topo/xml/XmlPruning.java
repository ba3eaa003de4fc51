package org.nccl4j.topo.xml;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.function.Predicate;

/**
 * Removes branches without anything that a communicator uses, such as bridges without a GPU or a
 * network below, and marks for removal that an element carries ({@code keep="0"}).
 */
public final class XmlPruning {
  private static final Set<String> BRANCHES = Set.of("cpu", "pci", "nic", "net");

  private XmlPruning() {}

  /** Prunes in place. */
  public static void prune(XmlElement system) {
    used(system, element -> element.is("gpu") || element.is("net"));
  }

  /** Prunes in place what leads to GPUs that no rank has, once the ranks are numbered. */
  public static void pruneUnranked(XmlElement system) {
    used(
        system,
        element -> element.is("net") || (element.is("gpu") && element.text("rank").isPresent()));
  }

  private static boolean used(XmlElement element, Predicate<XmlElement> isDevice) {
    boolean kept = element.text("keep").map("1"::equals).orElseGet(() -> isDevice.test(element));
    element.unset("keep");
    Set<XmlElement> unused = Collections.newSetFromMap(new IdentityHashMap<>());
    for (XmlElement child : element.children()) {
      boolean used = used(child, isDevice);
      if (!used && BRANCHES.contains(child.name())) {
        unused.add(child);
      }
      kept |= used;
    }
    if (!unused.isEmpty()) {
      element.removeAll(unused);
    }
    return kept;
  }
}
