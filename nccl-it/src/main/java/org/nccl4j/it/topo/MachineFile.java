package org.nccl4j.it.topo;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * The topology of a machine, from a file or, by name, of a usual machine that this jar has. A file
 * of that name comes first, a folder does not count.
 */
public final class MachineFile {
  /** Usual machines, whose files the build copies into the folder beside this class. */
  public static final List<String> NAMES =
      List.of(
          "arm-2a100",
          "dgx-a100",
          "dgx-b200",
          "dgx-h100",
          "dgx1-v100",
          "dgx2-v100",
          "gb200-nvl72",
          "gb200-tray",
          "gh200-quad",
          "h100-two-planes",
          "hgx-h100-2nic",
          "pcie-2-amd",
          "pcie-2-intel",
          "pcie-4-bridge",
          "pcie-8-amd",
          "pcie-8-intel",
          "power9-6v100",
          "vm-4h100");

  private static final String SUFFIX = ".xml";
  private static final Path WORKING = Path.of("");

  private MachineFile() {}

  /**
   * Reads it.
   *
   * @param given a file, or a name with or without ".xml"
   * @throws TopologyException if there is neither, or the file cannot be read
   */
  public static XmlElement read(Path given) {
    return read(WORKING, given);
  }

  /** Reads it as if another folder were the working one. */
  public static XmlElement read(Path working, Path given) {
    Path file = working.resolve(given);
    String name = name(given);
    if (isFile(file) || Files.exists(file) && !NAMES.contains(name)) {
      return TopologyXml.readSystem(file);
    }
    if (NAMES.contains(name)) {
      return TopologyXml.parseSystem(name, text(name));
    }
    throw new TopologyException(
        given + " cannot be read: there is no such file",
        given.toString(),
        "name a file, such as ./nccl topo detect writes, or one of the machines "
            + String.join(", ", NAMES));
  }

  /** Also a pipe, such as of a shell's {@code <(...)}. */
  private static boolean isFile(Path given) {
    return Files.exists(given) && !Files.isDirectory(given);
  }

  /** Its name in tables. */
  public static String label(Path given) {
    return label(WORKING, given);
  }

  /** Its name as if another folder were the working one. */
  public static String label(Path working, Path given) {
    String name = name(given);
    return !isFile(working.resolve(given)) && NAMES.contains(name)
        ? name + SUFFIX
        : String.valueOf(given.getFileName());
  }

  private static String name(Path given) {
    String text = given.toString();
    return text.endsWith(SUFFIX) ? text.substring(0, text.length() - SUFFIX.length()) : text;
  }

  private static String text(String name) {
    try (InputStream in = MachineFile.class.getResourceAsStream("machines/" + name + SUFFIX)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
