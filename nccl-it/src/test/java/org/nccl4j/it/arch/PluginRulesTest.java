package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.nccl4j.testkit.rules.PluginRules;

/** The rules for plug-ins: each catches a fixture that breaks it. */
class PluginRulesTest {
  /** Our transports may use packages of the engine that others may not. */
  @Test
  void aTransportOfOursKeepsTheOthers() {
    String root = "org.nccl4j.transport.nvls";
    JavaClasses classes =
        new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages(root);
    assertFalse(classes.isEmpty());
    PluginRules.all(root)
        .forEach(
            (name, rule) -> {
              if (!name.equals("exportedPackages")) {
                rule.check(classes);
              }
            });
  }

  @Test
  void aPackageWithoutClassesIsAnError() {
    assertThrows(AssertionError.class, () -> PluginRules.check("org.example.none"));
  }

  @TestFactory
  Stream<DynamicTest> eachRuleBites() {
    String root = "org.nccl4j.it.arch.plugin";
    JavaClasses broken = new ClassFileImporter().importPackages(root);
    return PluginRules.all(root).entrySet().stream()
        .map(
            rule ->
                dynamicTest(
                    rule.getKey(),
                    () -> assertTrue(rule.getValue().evaluate(broken).hasViolation())));
  }
}
