package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The module descriptors say what the design says. ArchUnit does not read them. */
class ModuleTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      nullValues = "-",
      value = {
        "nccl-topo | org.nccl4j.topo | -",
        "nccl-device | org.nccl4j.device | -",
        "nccl-api | org.nccl4j.api | org.nccl4j.topo org.nccl4j.device",
        "nccl-transport-p2p | org.nccl4j.transport.p2p | org.nccl4j.api",
        "nccl-transport-nvls | org.nccl4j.transport.nvls | org.nccl4j.api",
        "nccl-transport-net | org.nccl4j.transport.net | org.nccl4j.api",
      })
  void ownModulesRequired(String folder, String name, String required) {
    ModuleDescriptor module = descriptor(folder);
    assertEquals(name, module.name());
    Set<String> own =
        module.requires().stream()
            .map(ModuleDescriptor.Requires::name)
            .filter(r -> r.startsWith("org.nccl4j."))
            .collect(Collectors.toCollection(TreeSet::new));
    Set<String> wanted =
        required == null ? new TreeSet<>() : new TreeSet<>(Set.of(required.split(" ")));
    assertEquals(wanted, own);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "nccl-device | jcuda org.jnrproject.ffi org.jnrproject.jffi org.objectweb.asm java.logging"
            + " jdk.unsupported",
        "nccl-topo | java.xml",
        "nccl-api | jdk.jfr micrometer.core",
      })
  void foreignModulesRequired(String folder, String allowed) {
    Set<String> may = Set.of(allowed.split(" "));
    Set<String> foreign =
        descriptor(folder).requires().stream()
            .map(ModuleDescriptor.Requires::name)
            .filter(r -> !r.startsWith("org.nccl4j.") && !r.equals("java.base"))
            .filter(r -> !may.contains(r))
            .collect(Collectors.toSet());
    assertEquals(Set.of(), foreign);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {"nccl-api | org.nccl4j.api org.nccl4j.api.spi"})
  void exports(String folder, String packages) {
    assertEquals(
        new TreeSet<>(Set.of(packages.split(" "))),
        descriptor(folder).exports().stream()
            .filter(export -> !export.isQualified())
            .map(ModuleDescriptor.Exports::source)
            .collect(Collectors.toCollection(TreeSet::new)));
  }

  private static ModuleDescriptor descriptor(String folder) {
    Path classes = Path.of("..", folder, "target", "classes").toAbsolutePath().normalize();
    return ModuleFinder.of(classes).findAll().iterator().next().descriptor();
  }
}
