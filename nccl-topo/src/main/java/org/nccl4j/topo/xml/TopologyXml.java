package org.nccl4j.topo.xml;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.nccl4j.topo.TopologyException;

/** Reads and writes NCCL's topology files (NCCL_TOPO_FILE) and graph files (NCCL_GRAPH_FILE). */
public final class TopologyXml {
  private static final int VERSION = 1;

  private static final Map<String, Set<String>> SYSTEM_GRAMMAR =
      Map.of(
          "system", Set.of("cpu"),
          "cpu", Set.of("pci", "nic"),
          "pci", Set.of("pci", "gpu", "nic", "pcilink"),
          "gpu", Set.of("nvlink", "c2c"),
          "nic", Set.of("net"));

  private static final Map<String, Set<String>> GRAPH_GRAMMAR =
      Map.of(
          "graphs", Set.of("graph"),
          "graph", Set.of("channel"),
          "channel", Set.of("net", "gpu"));

  private TopologyXml() {}

  /** Reads a topology file. */
  public static XmlElement readSystem(Path file) {
    return parseSystem(file.toString(), content(file));
  }

  /** Reads a topology from text; {@code name} is what errors call it. */
  public static XmlElement parseSystem(String name, String text) {
    return parse(name, text, "system", SYSTEM_GRAMMAR);
  }

  /** Reads a graph file. */
  public static XmlElement readGraphs(Path file) {
    return parseGraphs(file.toString(), content(file));
  }

  /** Reads graphs from text; {@code name} is what errors call it. */
  public static XmlElement parseGraphs(String name, String text) {
    return parse(name, text, "graphs", GRAPH_GRAMMAR);
  }

  private static XmlElement parse(
      String name, String text, String top, Map<String, Set<String>> grammar) {
    XmlElement root = new XmlScanner(name, text, XmlLimits.DEFAULT).document();
    if (!root.is(top)) {
      throw root.error("is not <" + top + ">", "give a file whose top element is <" + top + ">");
    }
    if (root.requireInt("version") != VERSION) {
      throw root.error("has version " + root.require("version"), "use version=\"" + VERSION + "\"");
    }
    keepKnown(root, grammar);
    return root;
  }

  /**
   * Newer files may have more elements; unknown elements are left out, with all that is in them. A
   * GPU that would be lost that way is an error.
   */
  private static void keepKnown(XmlElement element, Map<String, Set<String>> grammar) {
    Set<String> known = grammar.getOrDefault(element.name(), Set.of());
    for (XmlElement child : element.children().toArray(XmlElement[]::new)) {
      if (known.contains(child.name())) {
        keepKnown(child, grammar);
      } else if (child.is("gpu")) {
        throw child.error("is in <" + element.name() + ">", "put a <gpu> into a <pci>");
      } else {
        element.remove(child);
      }
    }
  }

  private static String content(Path file) {
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw new TopologyException(
          file + " cannot be read: it is not a regular file, and reading it might never end",
          file.toString(),
          "give a topology or graph file");
    }
    try (InputStream in = Files.newInputStream(file)) {
      byte[] bytes = in.readNBytes(XmlLimits.DEFAULT.bytes() + 1);
      if (bytes.length > XmlLimits.DEFAULT.bytes()) {
        throw new TopologyException(
            file + " cannot be read: it is larger than " + XmlLimits.DEFAULT.bytes() + " bytes",
            file + ":1",
            "give a topology or graph file");
      }
      return new String(bytes, StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new TopologyException(
          file + " cannot be read: " + why(e),
          file.toString(),
          "name a file that this user can read");
    }
  }

  private static String why(IOException e) {
    if (e instanceof NoSuchFileException) {
      return "there is no such file";
    }
    return e instanceof AccessDeniedException
        ? "this user may not read it"
        : String.valueOf(e.getMessage());
  }

  /** The element as a file's text, two spaces a level, as NCCL writes it. */
  public static String write(XmlElement element) {
    StringBuilder out = new StringBuilder();
    write(out, 0, element);
    return out.toString();
  }

  private static void write(StringBuilder out, int indent, XmlElement element) {
    out.append(" ".repeat(indent)).append('<').append(element.name());
    element
        .attributes()
        .forEach(
            (key, value) ->
                out.append(' ')
                    .append(key)
                    .append("=\"")
                    .append(XmlEscapes.encode(value))
                    .append('"'));
    if (element.children().isEmpty()) {
      out.append("/>\n");
      return;
    }
    out.append(">\n");
    element.children().forEach(child -> write(out, indent + 2, child));
    out.append(" ".repeat(indent)).append("</").append(element.name()).append(">\n");
  }
}
