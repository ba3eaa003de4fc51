package org.nccl4j.topo.xml;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.TopologyException;

/**
 * An element of a topology or graph file, with the place it was read from so that an error can name
 * it. Unknown attributes are kept. Mutable, owned by the thread that builds or reads it.
 */
public final class XmlElement {
  private final String name;
  private final String file;
  private final int line;
  private final Map<String, String> attributes = new LinkedHashMap<>();
  private final List<XmlElement> children = new ArrayList<>();
  private XmlElement parent;

  XmlElement(String name, String file, int line) {
    this.name = name;
    this.file = file;
    this.line = line;
  }

  /** A new element that comes from no file. */
  public static XmlElement of(String name) {
    return new XmlElement(name, "memory", 0);
  }

  /** Returns the element's tag. */
  public String name() {
    return name;
  }

  /** True if it has that tag. */
  public boolean is(String tag) {
    return name.equals(tag);
  }

  /** File and line, for messages. */
  public String where() {
    return file + ":" + line;
  }

  /** The element around it, or null at the top. */
  public XmlElement parent() {
    return parent;
  }

  /** The elements in it, in order; not to be changed through this list. */
  public List<XmlElement> children() {
    return Collections.unmodifiableList(children);
  }

  /** The first child of that tag. */
  public Optional<XmlElement> child(String tag) {
    return children.stream().filter(element -> element.is(tag)).findFirst();
  }

  /** Adds a child at the end. */
  public XmlElement add(XmlElement child) {
    return add(children.size(), child);
  }

  /** Adds a child at an index. */
  public XmlElement add(int index, XmlElement child) {
    children.add(index, child);
    child.parent = this;
    return child;
  }

  /** Takes children out that are in a set by identity. */
  void removeAll(Set<XmlElement> unwanted) {
    children.removeIf(unwanted::contains);
  }

  /** Takes a child out. */
  public void remove(XmlElement child) {
    children.removeIf(element -> element == child);
  }

  /** Returns the attributes in order, as an unmodifiable map. */
  public Map<String, String> attributes() {
    return Collections.unmodifiableMap(attributes);
  }

  /** Sets an attribute; a new one goes last. */
  public XmlElement set(String key, Object value) {
    attributes.put(key, String.valueOf(value));
    return this;
  }

  /** Sets an attribute that has no value yet. */
  public XmlElement setIfAbsent(String key, Object value) {
    attributes.putIfAbsent(key, String.valueOf(value));
    return this;
  }

  /** Takes an attribute away. */
  public void unset(String key) {
    attributes.remove(key);
  }

  /** An attribute's text. */
  public Optional<String> text(String key) {
    return Optional.ofNullable(attributes.get(key));
  }

  /** An attribute's text, which must be there. */
  public String require(String key) {
    return text(key)
        .orElseThrow(
            () -> error("has no attribute '" + key + "'", "add " + key + "=\"...\" to it"));
  }

  /** A number that must be there, in C's notation. */
  public int requireInt(String key) {
    return intIn(key, require(key));
  }

  /** A number or its default. */
  public int intOr(String key, int otherwise) {
    return text(key).map(value -> intIn(key, value)).orElse(otherwise);
  }

  private int intIn(String key, String value) {
    OptionalLong number = CNumber.prefix(value);
    if (number.isEmpty() && !value.isBlank()) {
      throw error(key + "=\"" + value + "\" is not a number", "write it in digits");
    }
    long wide = number.orElse(0);
    if (wide != (int) wide) {
      throw error(key + "=\"" + value + "\" is out of range", "use a number of at most 31 bits");
    }
    return (int) wide;
  }

  /** An error about this element. */
  public TopologyException error(String why, String remedy) {
    return new TopologyException(
        "topology is not usable", where(), "<" + name + "> " + why, remedy);
  }

  /** True if tag and attributes are the same; children are not looked at. */
  boolean sameTag(XmlElement other) {
    return name.equals(other.name) && Objects.equals(attributes, other.attributes);
  }

  /** A copy with all that is in it. */
  public XmlElement copy() {
    XmlElement copy = new XmlElement(name, file, line);
    copy.attributes.putAll(attributes);
    children.forEach(child -> copy.add(child.copy()));
    return copy;
  }
}
