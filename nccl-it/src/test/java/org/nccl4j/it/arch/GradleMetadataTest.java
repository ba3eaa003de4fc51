package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.api.Communicator;

/** Gradle's metadata mean the same as the poms, and say more where a pom cannot. */
class GradleMetadataTest {
  /** Those that the build has packaged before this module's tests. */
  static Set<String> folders() throws IOException {
    Set<String> folders = PublishedPom.folders();
    folders.removeIf(folder -> folder.endsWith("/bom") || folder.equals("nccl-it"));
    return folders;
  }

  /** The phase test makes no jars, and so no metadata: {@code mvn verify} does. */
  @BeforeAll
  static void afterPackage() throws Exception {
    Path classes =
        Path.of(Communicator.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    assumeTrue(Files.isRegularFile(classes), classes + ": the modules are not packaged");
  }

  @ParameterizedTest
  @MethodSource("folders")
  void dependsOnWhatThePomDependsOn(String folder) throws Exception {
    PublishedPom pom = PublishedPom.read(folder);
    GradleMetadata gradle = GradleMetadata.read(folder);
    assertEquals(Set.of(gradle.component()), pom.coordinates());
    assertEquals(pom.dependencies(Set.of("compile")), gradle.dependencies("apiElements"));
    assertEquals(
        pom.dependencies(Set.of("compile", "runtime")), gradle.dependencies("runtimeElements"));
    assertTrue(pom.text().contains("do_not_remove: published-with-gradle-metadata"), "marker");
  }

  /** One version for all artifacts, and a clear error for an older Java: a pom has neither. */
  @ParameterizedTest
  @MethodSource("folders")
  void alignsVersionsAndStatesTheOldestJava(String folder) throws Exception {
    GradleMetadata gradle = GradleMetadata.read(folder);
    String version = gradle.component().replaceFirst(".*:", "");
    for (String variant : Set.of("apiElements", "runtimeElements")) {
      assertEquals(
          Set.of("org.nccl4j:nccl-bom:" + version + " without []"), gradle.platforms(variant));
      assertEquals(17, gradle.attributes(variant).get("org.gradle.jvm.version"));
    }
  }

  /** Gradle refuses a jar with another checksum. */
  @ParameterizedTest
  @MethodSource("folders")
  void hasTheJarsChecksum(String folder) throws Exception {
    for (String variant : Set.of("apiElements", "runtimeElements")) {
      Map<Path, String> checksums = GradleMetadata.read(folder).checksums(variant);
      assertEquals(1, checksums.size());
      for (Map.Entry<Path, String> each : checksums.entrySet()) {
        byte[] digest =
            MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(each.getKey()));
        assertEquals(HexFormat.of().formatHex(digest), each.getValue(), each.getKey().toString());
      }
    }
  }
}
