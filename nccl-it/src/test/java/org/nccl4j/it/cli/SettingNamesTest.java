package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;

/** Each setting is declared, and its text parsed, in one file: others take it from there. */
final class SettingNamesTest {
  /** A literal that is a name, outside comments. */
  private static final Pattern NAME =
      Pattern.compile("(?m)^(?! *(?:/?\\*|//)).*?\"(NCCL[A-Z0-9_]+)\"");

  /** Files below {@code api.settings} that name settings in messages. */
  private static final Set<String> MESSAGES = Set.of("Certificates.java", "TunedTable.java");

  @Test
  void eachNameIsWrittenInOneFile() throws IOException {
    Map<String, Set<String>> files = new TreeMap<>();
    for (Path file : sources()) {
      Matcher found = NAME.matcher(Files.readString(file));
      while (found.find()) {
        files
            .computeIfAbsent(found.group(1), name -> new TreeSet<>())
            .add(file.getFileName().toString());
      }
    }
    for (Setting<?> setting : Settings.declared()) {
      Set<String> with = files.getOrDefault(setting.name(), new TreeSet<>());
      with.removeAll(MESSAGES);
      assertEquals(1, with.size(), setting.name() + " is in " + with);
    }
  }

  private static List<Path> sources() throws IOException {
    try (Stream<Path> files = Files.walk(Path.of(".."), 20)) {
      return files
          .filter(file -> file.toString().matches("\\.\\./nccl-[a-z0-9-]+/src/main/java/.*\\.java"))
          .toList();
    }
  }
}
