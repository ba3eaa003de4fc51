package org.nccl4j.topo.detect;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The kernel's files below /sys and /proc, or a recorded copy of them. A file or folder that is
 * missing or cannot be read is empty.
 */
public final class SysFiles {
  private static final int MAX_BYTES = 1 << 16;
  private static final int MAX_CPUINFO_BYTES = 1 << 20;

  private final Path root;

  /**
   * Files below a root.
   *
   * @param root {@code /}, or the folder that has recorded {@code sys} and {@code proc}
   */
  public SysFiles(Path root) {
    this.root = root;
  }

  /** The text of a file below /sys, without space at its ends; empty if there is none. */
  String sys(String file) {
    return read(root.resolve("sys").resolve(file), MAX_BYTES);
  }

  String cpuInfo() {
    return read(root.resolve("proc/cpuinfo"), MAX_CPUINFO_BYTES);
  }

  /** The text of a file beside others of a device. */
  static String read(Path folder, String file) {
    return read(folder.resolve(file), MAX_BYTES);
  }

  private static String read(Path file, int limit) {
    if (!Files.isReadable(file) || Files.isDirectory(file)) {
      return "";
    }
    try (InputStream in = Files.newInputStream(file)) {
      return new String(in.readNBytes(limit), StandardCharsets.UTF_8).strip();
    } catch (IOException e) {
      // Some files of powered-off devices exist but cannot be read. Treat them as absent.
      return "";
    }
  }

  boolean exists(String file) {
    return Files.exists(root.resolve("sys").resolve(file));
  }

  /** The names in a folder below /sys, sorted. */
  List<String> list(String folder) {
    Path path = root.resolve("sys").resolve(folder);
    if (!Files.isDirectory(path)) {
      return List.of();
    }
    try (Stream<Path> names = Files.list(path)) {
      return names.map(name -> String.valueOf(name.getFileName())).sorted().toList();
    } catch (IOException | UncheckedIOException e) {
      return List.of(); // as a file that cannot be read
    }
  }

  /** The topology file that a hypervisor gives its guests, where NCCL looks too. */
  Optional<Path> virtualTopology() {
    return Optional.of(root.resolve("var/run/nvidia-topologyd/virtualTopology.xml"))
        .filter(Files::isReadable);
  }

  /** Returns the target of a link below /sys. */
  Optional<Path> real(String link) {
    try {
      return Optional.of(root.resolve("sys").resolve(link).toRealPath());
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  /** The folder of a PCI device, within the tree of buses. */
  Optional<Path> pci(String busId) {
    return real("bus/pci/devices/" + busId);
  }
}
