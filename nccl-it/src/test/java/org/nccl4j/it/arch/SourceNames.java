package org.nccl4j.it.arch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The types that source files name. A class file does not name all of them: it has the values of
 * constants instead of the types that declare these, and ArchUnit does not see which types a sealed
 * type permits.
 */
final class SourceNames {
  private static final Path ROOT = Path.of("..");

  private static final Pattern NO_CODE =
      Pattern.compile(
          "\"\"\".*?\"\"\"|\"(?:\\\\.|[^\"\\\\\n])*\"|'(?:\\\\.|[^'\\\\])+'|//[^\n]*|/\\*.*?\\*/",
          Pattern.DOTALL);

  private static final Pattern PACKAGE = Pattern.compile("(?m)^package ([\\w.]+);");

  private static final Pattern IMPORT =
      Pattern.compile("(?m)^import (?:static )?((?:[a-z]\\w*\\.)+([A-Z]\\w*))[\\w.*]*;");

  /** A type's simple name, or its full name. */
  private static final Pattern NAME = Pattern.compile("(?<![\\w.])((?:[a-z]\\w*\\.)*)([A-Z]\\w*)");

  private final Map<String, Path> files;

  SourceNames() {
    try (Stream<Path> walk = Files.walk(ROOT)) {
      files =
          walk.filter(
                  file -> file.toString().matches("\\.\\./[^.]*/src/(main|test)/java/.*\\.java"))
              .filter(file -> !file.toString().matches(".*/(package|module)-info\\.java"))
              .collect(Collectors.toMap(SourceNames::type, file -> file, (one, other) -> one));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String type(Path file) {
    return file.toString().replaceFirst(".*/java/(.*)\\.java", "$1").replace('/', '.');
  }

  /** Returns the full names of the types that a type's file names in code. */
  Set<String> of(String type) {
    Path file = files.get(type);
    if (file == null) {
      throw new IllegalStateException("no source of " + type);
    }
    try {
      return in(Files.readString(file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The full names of the types that a file names in code, or that its package may have. */
  static Set<String> in(String source) {
    String code = NO_CODE.matcher(source).replaceAll(" ");
    Matcher declared = PACKAGE.matcher(code);
    String home = declared.find() ? declared.group(1) : "";
    Map<String, String> imported = new HashMap<>();
    Matcher imports = IMPORT.matcher(code);
    Set<String> found = new TreeSet<>();
    while (imports.find()) {
      imported.put(imports.group(2), imports.group(1));
      found.add(imports.group(1));
    }
    Matcher names = NAME.matcher(code);
    while (names.find()) {
      String name = names.group(2);
      found.add(
          names.group(1).isEmpty()
              ? imported.getOrDefault(name, home + "." + name)
              : names.group(1) + name);
    }
    return found;
  }
}
