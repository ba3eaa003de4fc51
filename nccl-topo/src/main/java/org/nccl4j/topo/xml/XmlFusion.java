package org.nccl4j.topo.xml;

import java.util.List;
import java.util.Optional;

/**
 * Joins the views of several ranks of one host, or of one NVLink domain. Each rank's file has its
 * own GPU and all NICs; elements that are equal, with their attributes, are joined.
 */
public final class XmlFusion {
  private XmlFusion() {}

  /** The union of the views, in the order of their ranks. The views are not changed. */
  public static XmlElement fuse(List<XmlElement> views) {
    XmlElement union = views.get(0).copy();
    for (XmlElement view : views.subList(1, views.size())) {
      merge(union, view);
    }
    return union;
  }

  private static void merge(XmlElement into, XmlElement from) {
    for (XmlElement child : from.children()) {
      Optional<XmlElement> same = into.children().stream().filter(child::sameTag).findFirst();
      if (same.isPresent()) {
        merge(same.get(), child);
      } else {
        into.add(child.copy());
      }
    }
  }
}
