package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Set;
import org.junit.jupiter.api.Test;

/** The versions that a user of nccl-bom gets: those of all our artifacts, and of nothing else. */
class BomTest {
  @Test
  void hasTheArtifactsAlone() throws Exception {
    PublishedPom bom = PublishedPom.read("nccl-it/bom");
    assertEquals(PublishedPom.artifacts(), bom.values("dependencyManagement", "artifactId"));
    assertEquals(Set.of("org.nccl4j"), bom.values("dependencyManagement", "groupId"));
    assertEquals(bom.values("project", "version"), bom.values("dependencyManagement", "version"));
  }
}
