package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Importing the root's pom sets the versions of all modules, and of nothing else. */
class BomTest {
  private static Set<String> found(String text, String pattern) {
    Set<String> found = new TreeSet<>();
    Matcher matcher = Pattern.compile(pattern).matcher(text);
    while (matcher.find()) {
      found.add(matcher.group(1));
    }
    return found;
  }

  @Test
  void hasTheModulesAlone() throws Exception {
    String pom = Files.readString(Path.of("..", "pom.xml"));
    Set<String> modules = found(pom.split("<profiles>")[0], "<module>(.*?)</module>");
    String managed =
        pom.substring(
            pom.indexOf("<dependencyManagement>"), pom.indexOf("</dependencyManagement>"));
    assertEquals(modules, found(managed, "<artifactId>(.*?)</artifactId>"));
    assertEquals(Set.of("org.nccl4j"), found(managed, "<groupId>(.*?)</groupId>"));
    assertEquals(Set.of("${project.version}"), found(managed, "<version>(.*?)</version>"));
    assertEquals(7, modules.size());
  }
}
