package org.nccl4j.api.init.probe;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.os.CoreLayout;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.support.CopyWays;

/**
 * Keeps the ways of copying of a machine's processors beside the results of {@link Probing}: a file
 * whose first line is the key, then the lines of {@link CopyWays}. Processes replace the file as a
 * whole; the last one counts. A file that is damaged, or of another machine, is as none. Any
 * thread.
 */
public final class KeptCopyWays implements CopyWays.Store {
  private static final String SUFFIX = ".copies";
  private static final Path PROCESSORS = Path.of("/proc/cpuinfo");
  private static final Path MAPS = Path.of("/proc/self/maps");

  private final ProbeCache cache;
  private final ProbeKey key;
  private final InfoLog info;

  KeptCopyWays(ProbeCache cache, ProbeKey key, InfoLog info) {
    this.cache = cache;
    this.key = key;
    this.info = info;
  }

  /** Has this process's ways kept, unless NCCL4J_PROBE is 0. */
  public static void keepThoseOf(InitRequest request, int rank) {
    if (request.settings().get(PlanSettings.NCCL4J_PROBE) != 0) {
      CopyWays.ofProcess().keepIn(new OfUser(request.info(rank)));
    }
  }

  /** Looks for the key and the folder only when they are needed. */
  private record OfUser(InfoLog info) implements CopyWays.Store {
    @Override
    public List<String> find() {
      return ofUser(info).find();
    }

    @Override
    public void keep(List<String> lines) {
      ofUser(info).keep(lines);
    }
  }

  private static KeptCopyWays ofUser(InfoLog info) {
    return new KeptCopyWays(ProbeCache.ofUser(), key(), info);
  }

  private static ProbeKey key() {
    return ProbeKey.ofCopies(
        PROCESSORS,
        System.getProperty("os.version") + ", " + caches() + ", C library " + library(MAPS),
        System.getProperty("java.vm.version"));
  }

  /** The sizes of the last caches. */
  private static String caches() {
    TreeSet<Long> sizes = new TreeSet<>();
    CoreLayout.here().lastCaches().forEach(cache -> sizes.add(cache.bytes()));
    return "caches " + sizes;
  }

  /** The C library's date and size: no file tells its version. */
  static String library(Path maps) {
    try {
      for (String line : SettingFile.lines(maps)) {
        int at = line.indexOf('/');
        String name = line.substring(line.lastIndexOf('/') + 1);
        if (at >= 0
            && (name.startsWith("libc.so")
                || name.startsWith("libc-")
                || name.startsWith("ld-musl-"))) {
          Path file = Path.of(line.substring(at));
          return Files.getLastModifiedTime(file) + " " + Files.size(file);
        }
      }
    } catch (IOException | RuntimeException e) {
      return "unknown"; // /proc is not everywhere, and the file may be replaced
    }
    return "unknown";
  }

  /** A line for a report on this machine: the ways, and the file that has them. */
  public static String report() {
    KeptCopyWays kept = ofUser(new InfoLog(Settings.ofProcess(Map.of()), "report"));
    List<String> lines = kept.find();
    return lines.isEmpty()
        ? "copies of 2 KiB and more: not measured on this machine yet; host ranks measure them in use"
        : "copies of 2 KiB and more: %s (last kept at %s in %s)"
            .formatted(
                String.join("; ", lines),
                kept.file().map(KeptCopyWays::written).orElse(""),
                kept.place());
  }

  private static String written(Path file) {
    try {
      Instant written = Files.getLastModifiedTime(file).toInstant();
      return written.truncatedTo(ChronoUnit.SECONDS).toString();
    } catch (IOException e) {
      return "unknown";
    }
  }

  private Optional<Path> file() {
    return cache.folder().map(folder -> folder.resolve(key.fileName() + SUFFIX));
  }

  private String place() {
    return file().map(Path::toString).orElse("this process alone");
  }

  @Override
  public List<String> find() {
    return file().map(this::read).orElse(List.of());
  }

  private List<String> read(Path file) {
    try {
      List<String> lines = SettingFile.lines(file);
      if (!lines.isEmpty() && lines.get(0).equals(key.text())) {
        return lines.subList(1, lines.size());
      }
      info.tell("TUNING", () -> "ignores " + file + ", which is damaged or of another machine");
    } catch (NoSuchFileException e) {
      return List.of();
    } catch (IOException e) {
      info.tell("TUNING", () -> "cannot read " + file + " (" + IoErrorText.of(e) + ")");
    }
    return List.of();
  }

  @Override
  public void keep(List<String> lines) {
    List<String> text = new ArrayList<>(List.of(key.text()));
    text.addAll(lines);
    file().ifPresent(file -> ProbeCache.write(file, text, "ways of copies", info));
    info.tell("TUNING", () -> "copies by " + String.join("; ", lines) + ", kept in " + place());
  }
}
