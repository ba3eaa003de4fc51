package org.nccl4j.device.cuda.driver;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.nccl4j.device.bind.NativeNames;

/**
 * The files that may be NVRTC, in the order in which they are tried: of the driver's own major
 * version first, since a driver may refuse the code of a newer one. NVRTC is part of the CUDA
 * toolkit, and of the Python packages nvidia-cuda-nvrtc.
 */
final class NvrtcFiles {
  private static final String PREFIX = "libnvrtc.so";

  /** Folders, with patterns of names. */
  private static final List<List<String>> FOLDERS =
      List.of(
          List.of("/usr/local", "cuda*", "lib64"),
          List.of("/usr/local", "cuda*", "targets", "*", "lib"),
          List.of("/opt/cuda", "lib64"),
          List.of("/usr/lib", "python3*", "*-packages", "nvidia", "c*", "lib"),
          List.of("/usr/local/lib", "python3*", "*-packages", "nvidia", "c*", "lib"));

  private NvrtcFiles() {}

  /**
   * Names and paths for the loader.
   *
   * @param setting a file or its folder; empty to look in the usual places
   * @param major version of CUDA that the driver speaks
   */
  static List<String> candidates(String setting, int major) {
    if (!setting.isEmpty()) {
      Path named = Path.of(setting);
      return Files.isDirectory(named)
          ? inOrder(in(named).map(Path::toString), major)
          : List.of(setting);
    }
    Stream<String> found =
        FOLDERS.stream()
            .flatMap(pattern -> folders(Path.of(pattern.get(0)), pattern, 1).stream())
            .flatMap(NvrtcFiles::in)
            .map(Path::toString);
    return inOrder(Stream.concat(NativeNames.NVRTC.files().stream(), found), major);
  }

  /** The file of built-in functions beside a library, which the loader does not find by itself. */
  static Optional<Path> builtins(Path library) {
    Path folder = library.toAbsolutePath().getParent();
    return list(folder, "libnvrtc-builtins.so*").stream()
        .filter(file -> !file.getFileName().toString().contains(".alt."))
        .max(Comparator.naturalOrder());
  }

  private static List<String> inOrder(Stream<String> files, int major) {
    Set<String> distinct = new LinkedHashSet<>(files.toList());
    List<String> own = new ArrayList<>();
    List<String> others = new ArrayList<>();
    for (String file : distinct) {
      (file.contains(PREFIX + "." + major) ? own : others).add(file);
    }
    own.addAll(others);
    return own;
  }

  private static Stream<Path> in(Path folder) {
    return list(folder, PREFIX + "*").stream().sorted(Comparator.reverseOrder());
  }

  private static List<Path> folders(Path from, List<String> pattern, int next) {
    if (next == pattern.size()) {
      return List.of(from);
    }
    return list(from, pattern.get(next)).stream()
        .flatMap(folder -> folders(folder, pattern, next + 1).stream())
        .toList();
  }

  private static List<Path> list(Path folder, String glob) {
    List<Path> found = new ArrayList<>();
    if (Files.isDirectory(folder)) {
      try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, glob)) {
        files.forEach(found::add);
      } catch (IOException | UncheckedIOException e) {
        return List.of(); // not readable for this user, so not loadable either
      }
    }
    return found;
  }
}
