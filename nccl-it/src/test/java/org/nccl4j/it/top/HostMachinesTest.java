package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.observe.JobReport.UnreachedRoot;

/** The values of {@code --machine}. */
class HostMachinesTest {
  private static final Path DGX =
      Path.of("../nccl-topo/src/test/resources/org/nccl4j/topo/machines/dgx-h100.xml");

  @TempDir Path folder;

  private String copy(String name) throws IOException {
    Path file = folder.resolve(name);
    Files.createDirectories(file.getParent());
    return Files.copy(DGX, file).toString();
  }

  @Test
  void aPathMayHaveAnEqualsSign() throws IOException {
    HostMachines ofAll = new HostMachines(List.of(copy("a=b/c=d.xml")));
    assertTrue(ofAll.of("any").isPresent());
    HostMachines ofOne = new HostMachines(List.of("node=" + folder.resolve("a=b/c=d.xml")));
    assertTrue(ofOne.of("node").isPresent());
    assertEquals(Optional.empty(), ofOne.of("other"));
  }

  /** A mistake in a name would show in no other way than in a machine that is not known. */
  @Test
  void aHostWithoutRanksIsNamed() throws IOException {
    HostMachines machines = new HostMachines(List.of("nod1=" + copy("m.xml"), "node2=" + DGX));
    Set<String> all = Set.of("nod1", "node2");
    String text = "--machine: no rank is on nod1; the ranks are on node1, node2";
    assertEquals(Optional.empty(), machines.unknown(Set.of(), /* isLast= */ false));
    assertEquals(
        Optional.empty(),
        machines.unknown(Set.of("node1", "node2"), /* isLast= */ false),
        "one frame alone");
    assertEquals(
        Optional.of(text), machines.unknown(Set.of("node1", "node2"), /* isLast= */ false));
    assertEquals(
        Optional.empty(), machines.unknown(Set.of("node1", "node2"), /* isLast= */ false), "told");
    assertEquals(Optional.empty(), machines.unknown(all, /* isLast= */ false));
    assertEquals(Optional.empty(), machines.unknown(all, /* isLast= */ false));
  }

  /** The ranks of a job that starts appear host after host. */
  @Test
  void hostsWhoseRanksAppearLaterAreNotNamed() throws IOException {
    HostMachines machines = new HostMachines(List.of("node1=" + copy("m.xml"), "node2=" + DGX));
    assertEquals(Optional.empty(), machines.unknown(Set.of("node1"), /* isLast= */ false));
    assertEquals(Optional.empty(), machines.unknown(Set.of("node1", "node2"), /* isLast= */ false));
    assertEquals(Optional.empty(), machines.unknown(Set.of("node1", "node2"), /* isLast= */ false));
    assertEquals(Optional.empty(), machines.unknown(Set.of("node1"), /* isLast= */ false));
    assertEquals(
        Optional.of("--machine: no rank is on node2; the ranks are on node1"),
        machines.unknown(Set.of("node1"), /* isLast= */ false),
        "they have ended");
  }

  @Test
  void theLastFrameNeedsNoOther() throws IOException {
    HostMachines machines = new HostMachines(List.of("nod1=" + copy("m.xml")));
    assertEquals(
        Optional.of("--machine: no rank is on nod1; the ranks are on node1"),
        machines.unknown(Set.of("node1"), /* isLast= */ true));
  }

  /** Its ranks may be those of the root that gives no answer. */
  @Test
  void aHostIsNotNamedWhileARootGivesNoAnswer() throws IOException {
    HostMachines machines = new HostMachines(List.of("nod1=" + copy("m.xml")));
    Frame whole = FrameSamples.frame(1, FrameSamples.rank(0, "plain", "node1"));
    Frame partial = whole.without(List.of(new UnreachedRoot("10.0.0.7:4000", "it is gone")));
    assertEquals(Optional.empty(), machines.unknown(partial, /* isLast= */ true));
    assertTrue(machines.unknown(whole, /* isLast= */ true).isPresent());
  }
}
