package org.nccl4j.it.arch;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchRule;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.nccl4j.it.arch.broken.device.AllocatesWhileHot;

/** The project obeys the rules, and each rule catches a fixture that breaks it. */
class ArchitectureTest {
  private static final StructureLimits LIMITS = StructureLimits.ofProject();

  private static final JavaClasses PROJECT =
      new ClassFileImporter()
          .withImportOption(new ImportOption.DoNotIncludeTests())
          .withImportOption(location -> !location.contains("module-info"))
          .importPackages("org.nccl4j");

  @Test
  void classesWereSeen() {
    Stream.of("operation", "topo", "device", "api", "transport", "spark", "opentelemetry", "it")
        .forEach(
            module ->
                assertTrue(
                    PROJECT.stream()
                            .filter(c -> c.getPackageName().startsWith("org.nccl4j." + module))
                            .count()
                        >= 3,
                    "classes of " + module));
  }

  @TestFactory
  Stream<DynamicTest> theProjectObeys() {
    return new ArchitectureRules("org.nccl4j", LIMITS)
        .all().entrySet().stream()
            .map(rule -> dynamicTest(rule.getKey(), () -> rule.getValue().check(PROJECT)));
  }

  @Test
  void eachWayToAllocateOrLockIsSeen() {
    JavaClasses broken = new ClassFileImporter().importClasses(AllocatesWhileHot.class);
    List<String> found =
        classes().should(new HotPathRule()).evaluate(broken).getFailureReport().getDetails();
    assertEquals(
        List.of("boxes", "captures", "isSynchronized", "locks", "makes", "makesArray"),
        found.stream()
            .map(line -> line.replaceFirst(".*AllocatesWhileHot\\.(\\w+) .*", "$1"))
            .sorted()
            .toList());
  }

  @TestFactory
  Stream<DynamicTest> eachRuleBites() {
    String root = "org.nccl4j.it.arch.broken";
    JavaClasses broken = new ClassFileImporter().importPackages(root);
    Map<String, ArchRule> rules = new ArchitectureRules(root, StructureLimits.least()).all();
    return rules.entrySet().stream()
        .map(
            rule ->
                dynamicTest(
                    rule.getKey(),
                    () -> assertTrue(rule.getValue().evaluate(broken).hasViolation())));
  }
}
