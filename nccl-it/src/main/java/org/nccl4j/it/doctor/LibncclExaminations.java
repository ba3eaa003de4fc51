package org.nccl4j.it.doctor;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.nccl4j.api.settings.DropInSettings;
import org.nccl4j.api.settings.Environment;
import org.nccl4j.it.file.GivenPath;
import org.nccl4j.it.run.Tool;

/** The libnccl.so.2 that a program for NCCL loads when it is started from the same shell. */
final class LibncclExaminations {
  private static final String FILE = "libnccl.so.2";
  private static final String SUBJECT = "libnccl";
  private static final long MOST_BYTES_OF_OURS = 4 << 20;

  /** A text that only ours has. */
  private static final String MARK = DropInSettings.NCCL4J_CLASS_PATH.name();

  private static final String WITH = "./nccl with COMMAND runs it with nccl4j's";
  private static final List<String> FOLDERS =
      List.of(
          "/lib/x86_64-linux-gnu",
          "/lib/aarch64-linux-gnu",
          "/usr/lib/x86_64-linux-gnu",
          "/lib64",
          "/usr/lib64",
          "/usr/lib");

  /** Prints the dynamic loader's cache; users have no sbin in their PATH. */
  private static final List<String> CACHE = List.of("/sbin/ldconfig", "-p");

  private static final Pattern CACHED =
      Pattern.compile("\\s*libnccl\\.so\\.2 \\(libc6,(?:x86-64|AArch64)[^)]*\\) => (\\S.*)");

  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private LibncclExaminations() {}

  static List<Examination> all() {
    return List.of(new Examination(SUBJECT, () -> List.of(look(Environment.variables(), cache()))));
  }

  /** The lines of the loader's cache; empty where it cannot be read. */
  private static String cache() {
    try {
      return Tool.run(PATIENCE, CACHE).text();
    } catch (IOException | TimeoutException e) {
      return "";
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return "";
    }
  }

  /**
   * Finds the library that a process with these variables loads, without a copy of its own.
   *
   * @param cache what ldconfig -p prints
   */
  static Finding look(Map<String, String> variables, String cache) {
    Optional<Path> preloaded =
        words(variables, "LD_PRELOAD", "[: ]").filter(each -> each.endsWith(FILE)).findFirst();
    if (preloaded.isPresent()) {
      return found("every program loads", preloaded.get(), "by LD_PRELOAD");
    }
    Optional<Path> named = in(words(variables, "LD_LIBRARY_PATH", "[:;]"));
    if (named.isPresent()) {
      return found("a program without its own copy loads", named.get(), "by LD_LIBRARY_PATH");
    }
    Optional<Path> cached =
        cache
            .lines()
            .map(CACHED::matcher)
            .filter(Matcher::matches)
            .flatMap(line -> GivenPath.find(line.group(1)).stream())
            .findFirst();
    if (cached.isPresent()) {
      return found("a program without its own copy loads", cached.get(), "by ld.so.cache");
    }
    Optional<Path> installed = in(FOLDERS.stream().map(Path::of));
    return installed.isPresent()
        ? found("a program without its own copy loads", installed.get(), "installed")
        : Finding.ok(SUBJECT, "none is installed: a program loads its own copy; " + WITH);
  }

  private static Stream<Path> words(Map<String, String> variables, String name, String separators) {
    return Stream.of(variables.getOrDefault(name, "").split(separators))
        .filter(word -> !word.isEmpty())
        .flatMap(word -> GivenPath.find(word).stream());
  }

  private static Optional<Path> in(Stream<Path> folders) {
    return folders.map(folder -> folder.resolve(FILE)).filter(Files::exists).findFirst();
  }

  private static Finding found(String who, Path library, String why) {
    try {
      Path real = library.toRealPath();
      boolean ours = isOurs(real);
      return Finding.ok(
          SUBJECT,
          "%s %s (%s): %s".formatted(who, real, why, ours ? "nccl4j's" : "NCCL's; " + WITH));
    } catch (IOException e) {
      return Finding.warn(
          SUBJECT,
          "%s, %s, cannot be read (%s)".formatted(library, why, e),
          why.startsWith("by LD_")
              ? "unset the variable, or name an existing file"
              : "install it anew, and run ldconfig");
    }
  }

  private static boolean isOurs(Path library) throws IOException {
    return Files.size(library) < MOST_BYTES_OF_OURS
        && new String(Files.readAllBytes(library), StandardCharsets.ISO_8859_1).contains(MARK);
  }
}
