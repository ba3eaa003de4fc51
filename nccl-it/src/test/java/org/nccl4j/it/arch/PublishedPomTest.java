package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Published poms have what Maven Central asks for, and mean the same to every build tool. */
class PublishedPomTest {
  static Set<String> folders() throws IOException {
    return PublishedPom.folders();
  }

  @ParameterizedTest
  @MethodSource("folders")
  void saysWhatCentralAsksFor(String folder) throws Exception {
    PublishedPom pom = PublishedPom.read(folder);
    for (String element :
        Set.of("name", "description", "url", "licenses", "developers", "scm", "connection")) {
      assertTrue(pom.has(element), element);
    }
  }

  /** Properties, profiles and parents mean different things to Maven, Gradle and sbt. */
  @ParameterizedTest
  @MethodSource("folders")
  void dependsOnNoMachine(String folder) throws Exception {
    PublishedPom pom = PublishedPom.read(folder);
    assertFalse(pom.text().contains("${"));
    for (String element : Set.of("parent", "profiles", "properties", "repositories")) {
      assertFalse(pom.has(element), element);
    }
  }

  /** JCuda's natives are chosen by properties of its parent's profiles. */
  @ParameterizedTest
  @ValueSource(strings = "nccl-device")
  void leavesOutJcudasNatives(String folder) throws Exception {
    PublishedPom pom = PublishedPom.read(folder);
    assertEquals(Set.of("jcuda-natives"), pom.values("exclusions", "artifactId"));
    assertEquals(Set.of(), pom.values("dependencies", "classifier"));
    assertEquals(Set.of("compile"), pom.values("dependencies", "scope"));
  }
}
