package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The module descriptors say what the design says. ArchUnit does not read them. */
class ModuleTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      nullValues = "-",
      value = {
        "nccl-topo | org.nccl4j.topo | -",
        "nccl-device | org.nccl4j.device | org.nccl4j.topo",
        "nccl-device/kernels | org.nccl4j.kernels | org.nccl4j.device",
        "nccl-api | org.nccl4j.api | org.nccl4j.topo org.nccl4j.device",
        "nccl-transport-p2p | org.nccl4j.transport.p2p | org.nccl4j.api",
        "nccl-transport-nvls | org.nccl4j.transport.nvls | org.nccl4j.api",
        "nccl-transport-net | org.nccl4j.transport.net | org.nccl4j.api",
        "nccl-it/testkit | org.nccl4j.testkit | org.nccl4j.api org.nccl4j.transport.net",
        "nccl-it | org.nccl4j.it | org.nccl4j.api org.nccl4j.transport.net"
            + " org.nccl4j.transport.p2p",
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
      nullValues = "-",
      value = {
        "nccl-device | jcuda org.jnrproject.ffi org.jnrproject.jffi org.objectweb.asm java.logging"
            + " jdk.unsupported",
        "nccl-topo | -",
        "nccl-api | jdk.httpserver jdk.jfr micrometer.core",
        "nccl-transport-p2p | -",
        "nccl-transport-nvls | -",
        "nccl-transport-net | jdk.jfr org.jnrproject.ffi org.jnrproject.jffi org.objectweb.asm",
        "nccl-it/testkit | com.tngtech.archunit java.management jdk.management",
        "nccl-it | info.picocli jdk.httpserver jdk.jfr jdk.management com.fasterxml.jackson.core"
            + " me.tongfei.progressbar java.logging java.management",
      })
  void foreignModulesRequired(String folder, String allowed) {
    Set<String> may = allowed == null ? Set.of() : Set.of(allowed.split(" "));
    Set<String> foreign =
        descriptor(folder).requires().stream()
            .map(ModuleDescriptor.Requires::name)
            .filter(r -> !r.startsWith("org.nccl4j.") && !r.equals("java.base"))
            .filter(r -> !may.contains(r))
            .collect(Collectors.toSet());
    assertEquals(Set.of(), foreign);
  }

  /** The packages that users and plug-in authors see. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      nullValues = "-",
      value = {
        "nccl-topo | org.nccl4j.operation org.nccl4j.topo",
        "nccl-device | org.nccl4j.device org.nccl4j.device.bind org.nccl4j.device.connection"
            + " org.nccl4j.device.cuda",
        "nccl-device/kernels | org.nccl4j.kernels",
        "nccl-api | org.nccl4j.api org.nccl4j.api.spi",
        "nccl-transport-p2p | -",
        "nccl-transport-nvls | -",
        "nccl-transport-net | org.nccl4j.transport.net.ib.bind"
            + " org.nccl4j.transport.net.socket",
        "nccl-it/testkit | org.nccl4j.testkit org.nccl4j.testkit.faults org.nccl4j.testkit.rules",
        "nccl-it | org.nccl4j.it.doctor.bind org.nccl4j.it.perf.nccl.bind"
            + " org.nccl4j.it.perf.rank.bind",
      })
  void exports(String folder, String packages) {
    assertEquals(
        packages == null ? Set.of() : new TreeSet<>(Set.of(packages.split(" "))),
        descriptor(folder).exports().stream()
            .filter(export -> !export.isQualified())
            .map(ModuleDescriptor.Exports::source)
            .collect(Collectors.toCollection(TreeSet::new)));
  }

  /**
   * A release is compared with the last one in every package that users and plug-in authors call.
   */
  @ParameterizedTest
  @ValueSource(strings = {"nccl-topo", "nccl-device", "nccl-api", "nccl-it/testkit"})
  void releasesAreCompared(String folder) throws IOException {
    String pom = Files.readString(Path.of("..", "pom.xml"));
    for (ModuleDescriptor.Exports export : descriptor(folder).exports()) {
      String name = export.source();
      if (!export.isQualified() && !name.endsWith(".bind")) {
        assertTrue(pom.contains("<include>" + name + "</include>"), name + " for japicmp");
      }
    }
  }

  /** Packages that only modules of this project see, by the modules that may. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      nullValues = "-",
      value = {
        "nccl-topo | api it | cluster connect detect path search system tuning xml",
        "nccl-topo | it | report simulate",
        "nccl-device | api it kernels transport.net transport.p2p | cuda.driver",
        "nccl-device | api it transport.net transport.p2p | shm",
        "nccl-device | api transport.net transport.p2p | cuda.memory",
        "nccl-device | api it | cuda.nvml numeric",
        "nccl-device | api it testkit transport.net transport.nvls transport.p2p | support",
        "nccl-device | api it transport.net transport.nvls | host kernel",
        "nccl-device | api transport.nvls | symmetric",
        "nccl-api | it | init.ahead init.costs observe observe.flight observe.http observe.span"
            + " plan.algorithm plan.cost plan.trial registry",
        "nccl-api | it transport.net transport.nvls transport.p2p | settings wire",
        "nccl-api | transport.nvls | multicast",
        "nccl-transport-net | it | net net.ib net.plugin",
        "nccl-transport-p2p | it | p2p",
        "nccl-transport-nvls | it | nvls",
        "nccl-it/testkit | - | -",
        "nccl-it | - | -",
      })
  void qualifiedExports(String folder, String modules, String packages) {
    Set<String> targets = modules == null ? Set.of() : named("org.nccl4j.", modules);
    Set<String> found =
        descriptor(folder).exports().stream()
            .filter(ModuleDescriptor.Exports::isQualified)
            .filter(export -> modules == null || export.targets().equals(targets))
            .map(ModuleDescriptor.Exports::source)
            .collect(Collectors.toCollection(TreeSet::new));
    assertEquals(packages == null ? Set.of() : named(prefix(folder), packages), found);
  }

  /** The prefix of the names of a module's packages; a transport's has its name. */
  private static String prefix(String folder) {
    String name = descriptor(folder).name();
    return folder.startsWith("nccl-transport-") ? "org.nccl4j.transport." : name + ".";
  }

  private static Set<String> named(String prefix, String names) {
    return Stream.of(names.split(" ")).map(prefix::concat).collect(Collectors.toSet());
  }

  private static ModuleDescriptor descriptor(String folder) {
    Path classes = Path.of("..", folder, "target", "classes").toAbsolutePath().normalize();
    return ModuleFinder.of(classes).findAll().iterator().next().descriptor();
  }
}
