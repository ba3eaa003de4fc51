package org.nccl4j.it.arch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A pom as repositories get it, which the build writes beside each module's classes. */
record PublishedPom(String text) {
  /**
   * Reads the pom of a folder of this project.
   *
   * @param folder below the root, such as {@code nccl-it/bom}
   */
  static PublishedPom read(String folder) throws IOException {
    return new PublishedPom(Files.readString(Path.of("..", folder, "target", "published-pom.xml")));
  }

  /** The folders of all artifacts, as the root's pom lists them, without modules of tests. */
  static Set<String> folders() throws IOException {
    String root = Files.readString(Path.of("..", "pom.xml")).split("<profiles>")[0];
    Set<String> folders = found(root, "<module>(.*?)</module>");
    folders.removeIf(folder -> folder.contains("/src/test/"));
    return folders;
  }

  /** The names of the artifacts that are jars. */
  static Set<String> artifacts() throws IOException {
    Set<String> artifacts = new TreeSet<>();
    for (String folder : folders()) {
      if (!folder.endsWith("/bom")) {
        artifacts.add(folder.replaceFirst(".*/", "nccl-"));
      }
    }
    return artifacts;
  }

  /** The content of all elements of a name, within the first element of another name. */
  Set<String> values(String within, String element) {
    Matcher whole =
        Pattern.compile("<" + within + "\\b.*?>(.*)</" + within + ">", Pattern.DOTALL)
            .matcher(text);
    if (!whole.find()) {
      return Set.of();
    }
    String content = whole.group(1);
    if (within.equals("project")) {
      content = content.split("<dependenc")[0];
    }
    return found(content, "<" + element + ">(.*?)</" + element + ">");
  }

  /** This artifact's name and version. */
  Set<String> coordinates() {
    return Set.of(coordinates(text.split("<dependenc")[0]));
  }

  /**
   * The dependencies of some scopes that are not optional, each as "group:artifact:version without
   * [exclusions]".
   */
  Set<String> dependencies(Set<String> scopes) {
    Set<String> dependencies = new TreeSet<>();
    for (String each : found(text, "(?s)<dependency>(.*?)</dependency>")) {
      Set<String> excluded = new TreeSet<>();
      for (String exclusion : found(each, "(?s)<exclusion>(.*?)</exclusion>")) {
        excluded.add(only(exclusion, "groupId") + ":" + only(exclusion, "artifactId"));
      }
      String own = each.replaceAll("(?s)<exclusions>.*</exclusions>", "");
      if (scopes.contains(only(own, "scope")) && !own.contains("<optional>true</optional>")) {
        dependencies.add(coordinates(own) + " without " + excluded);
      }
    }
    return dependencies;
  }

  private static String coordinates(String element) {
    return "%s:%s:%s"
        .formatted(only(element, "groupId"), only(element, "artifactId"), only(element, "version"));
  }

  /** The content of the element of a name, which is there once. */
  private static String only(String text, String element) {
    Set<String> found = found(text, "<" + element + ">(.*?)</" + element + ">");
    if (found.size() != 1) {
      throw new AssertionError(found.size() + " values of " + element + " in " + text);
    }
    return found.iterator().next();
  }

  boolean has(String element) {
    return Pattern.compile("<" + element + "[ >]").matcher(text).find();
  }

  private static Set<String> found(String text, String pattern) {
    Set<String> found = new TreeSet<>();
    Matcher matcher = Pattern.compile(pattern).matcher(text);
    while (matcher.find()) {
      found.add(matcher.group(1));
    }
    return found;
  }
}
