package org.nccl4j.api.init.probe;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.Environment;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;

/**
 * The results of probes, in this process and in files of the user's cache folder. Files are
 * replaced atomically, so that concurrent readers see the old or the new one. A file that cannot be
 * read or written, or that has another format, is logged and ignored. Any thread.
 *
 * @param folder of the files; empty if there is none
 */
record ProbeCache(Optional<Path> folder) {
  private static final String SUFFIX = ".costs";

  /**
   * Results by key, of folders that cannot be written too. Empty: a failure, or nothing that
   * counts, not tried again.
   */
  private static final Map<String, Optional<TunedTable>> OF_PROCESS = new ConcurrentHashMap<>();

  /** The cache of the user that runs this process. */
  static ProbeCache ofUser() {
    return of(Environment.variables(), System.getProperty("user.home", ""));
  }

  /** The cache of an environment. The XDG base directory specification ignores relative paths. */
  static ProbeCache of(Map<String, String> variables, String home) {
    try {
      Path cache = Path.of(variables.getOrDefault("XDG_CACHE_HOME", ""));
      if (!cache.isAbsolute()) {
        cache = Path.of(home).resolve(".cache");
      }
      return new ProbeCache(Optional.of(cache.resolve("nccl4j")).filter(Path::isAbsolute));
    } catch (InvalidPathException e) {
      return new ProbeCache(Optional.empty());
    }
  }

  /** The file of a key. */
  Optional<Path> file(ProbeKey key) {
    return folder.map(path -> path.resolve(key.fileName() + SUFFIX));
  }

  /** True if a probe of this process has failed, or nothing that it measured counts. */
  boolean hasFailed(ProbeKey key) {
    Optional<TunedTable> known = OF_PROCESS.get(id(key));
    return known != null && known.isEmpty();
  }

  /** Remembers for this process that a probe has failed. */
  void failed(ProbeKey key) {
    OF_PROCESS.put(id(key), Optional.empty());
  }

  /** True if this process has kept or found a result. */
  boolean knows(ProbeKey key) {
    return OF_PROCESS.containsKey(id(key));
  }

  /** The age of a key's file; empty without one. */
  Optional<Duration> age(ProbeKey key) {
    return file(key)
        .flatMap(ProbeCache::written)
        .map(written -> Duration.between(written, Instant.now()));
  }

  private static Optional<Instant> written(Path file) {
    try {
      return Optional.of(Files.getLastModifiedTime(file).toInstant());
    } catch (IOException e) {
      return Optional.empty(); // as a file that is not there
    }
  }

  private String id(ProbeKey key) {
    return folder + " " + key.text();
  }

  /** Finds the result of an earlier probe. */
  Optional<TunedTable> find(ProbeKey key, InfoLog info) {
    Optional<TunedTable> known = OF_PROCESS.get(id(key));
    if (known != null) {
      return known;
    }
    Optional<TunedTable> read = inFile(key, info);
    read.ifPresent(table -> OF_PROCESS.put(id(key), Optional.of(table)));
    return read;
  }

  /** The result that a key's file has now, which this process does not remember. */
  Optional<TunedTable> inFile(ProbeKey key, InfoLog info) {
    return file(key).flatMap(file -> read(file, key, info));
  }

  /** Dates a key's file as if it were written now; false if that cannot be done. */
  boolean renew(ProbeKey key) {
    Optional<Path> file = file(key);
    try {
      if (file.isPresent()) {
        Files.setLastModifiedTime(file.get(), FileTime.from(Instant.now()));
      }
      return file.isPresent();
    } catch (IOException e) {
      return false; // as a folder that cannot be written
    }
  }

  /** Forgets a result, and deletes its file. */
  void forget(ProbeKey key, InfoLog info) {
    OF_PROCESS.remove(id(key));
    file(key).ifPresent(file -> delete(file, info));
  }

  private static void delete(Path file, InfoLog info) {
    try {
      Files.deleteIfExists(file);
    } catch (IOException e) {
      info.tell("TUNING", () -> "cannot delete " + file + ": " + IoErrorText.of(e));
    }
  }

  /** The files of all keys whose text begins with a key's, the last written first. */
  List<KeptProbe> beginning(ProbeKey begin) {
    String name = begin.filePrefix();
    List<KeptProbe> found = new ArrayList<>();
    for (Path file : folder.map(ProbeCache::files).orElse(List.of())) {
      String named = file.getFileName().toString();
      if (named.startsWith(name) && named.endsWith(SUFFIX)) {
        kept(file, begin).ifPresent(found::add);
      }
    }
    found.sort(Comparator.comparing(KeptProbe::written).reversed());
    return found;
  }

  private static List<Path> files(Path folder) {
    try (Stream<Path> files = Files.list(folder)) {
      return files.toList();
    } catch (IOException | UncheckedIOException e) {
      return List.of(); // as to a creation, to which a missing folder is none either
    }
  }

  private static Optional<KeptProbe> kept(Path file, ProbeKey begin) {
    try {
      List<String> lines = SettingFile.lines(file);
      TunedTable table = TunedTable.parse(ProbeTable.NAME, lines);
      boolean same = lines.get(0).startsWith(begin.text()) && table.device().equals(begin.model());
      Instant written = Files.getLastModifiedTime(file).toInstant().truncatedTo(ChronoUnit.SECONDS);
      return same
          ? Optional.of(
              new KeptProbe(
                  file, written, table.lines().size(), ProbeKey.isUnfinished(lines.get(0))))
          : Optional.empty();
    } catch (IOException | InvalidArgumentException e) {
      return Optional.empty(); // a creation measures again
    }
  }

  private static Optional<TunedTable> read(Path file, ProbeKey key, InfoLog info) {
    try {
      List<String> lines = SettingFile.lines(file);
      TunedTable table = TunedTable.parse(ProbeTable.NAME, lines);
      if (lines.get(0).equals(key.text()) && table.device().equals(key.model())) {
        return Optional.of(table);
      }
      info.tell("TUNING", () -> "ignores " + file + ", which is of another machine");
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (IOException e) {
      info.tell("TUNING", () -> "cannot read " + file + " (" + IoErrorText.of(e) + ")");
    } catch (InvalidArgumentException e) {
      info.tell("TUNING", () -> "ignores " + file + ", which is damaged: " + e.problem());
    }
    return Optional.empty();
  }

  /**
   * Keeps a result for this process alone.
   *
   * @param table empty if nothing counts: then this process measures no more
   */
  void keepHere(ProbeKey key, Optional<TunedTable> table) {
    OF_PROCESS.put(id(key), table);
  }

  /** Keeps a result. */
  void keep(ProbeKey key, TunedTable table, InfoLog info) {
    keepHere(key, Optional.of(table));
    file(key)
        .ifPresent(file -> write(file, ProbeTable.text(table, key.text()), "probe's times", info));
  }

  /** Replaces a file as a whole, and logs the reason if it cannot. */
  static void write(Path file, List<String> lines, String what, InfoLog info) {
    try {
      Files.createDirectories(file.getParent());
      Path made = Files.createTempFile(file.getParent(), "probe", ".tmp");
      try {
        Files.write(made, lines, StandardCharsets.UTF_8);
        Files.move(made, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      } finally {
        Files.deleteIfExists(made);
      }
    } catch (IOException e) {
      info.tell(
          "TUNING", () -> "cannot keep the " + what + " in " + file + ": " + IoErrorText.of(e));
    }
  }

  /**
   * A word for a file's name. A loop, since regular expressions take a process's first call long.
   */
  static String word(String text) {
    StringBuilder word = new StringBuilder();
    for (char each : text.toLowerCase(Locale.ROOT).toCharArray()) {
      if (each >= 'a' && each <= 'z' || each >= '0' && each <= '9') {
        word.append(each);
      } else if (word.length() == 0 || word.charAt(word.length() - 1) != '-') {
        word.append('-');
      }
    }
    return word.toString();
  }
}
