package org.nccl4j.testkit.rules;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchRule;
import java.util.LinkedHashMap;
import java.util.Map;

/** The rules for the classes of a transport, a network, a tuner or a profiler. */
public final class PluginRules {
  /** The packages that a plug-in may use; the module descriptors export the same. */
  private static final String[] EXPORTED = {
    "org.nccl4j.api",
    "org.nccl4j.api.spi",
    "org.nccl4j.device",
    "org.nccl4j.device.bind",
    "org.nccl4j.device.connection",
    "org.nccl4j.device.cuda",
    "org.nccl4j.operation",
    "org.nccl4j.topo",
    "org.nccl4j.transport..",
    "org.nccl4j.testkit..",
  };

  private PluginRules() {}

  /**
   * Checks the classes of a package and of those below it, without tests.
   *
   * @throws AssertionError if a rule is broken, or if there is no class
   */
  public static void check(String root) {
    JavaClasses classes =
        new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages(root);
    if (classes.isEmpty()) {
      throw new AssertionError(
          "no class of " + root + " was found; name the package of the plug-in's classes");
    }
    all(root).values().forEach(rule -> rule.check(classes));
  }

  /** Returns the rules by name, for those who leave one out. */
  public static Map<String, ArchRule> all(String root) {
    Map<String, ArchRule> rules = new LinkedHashMap<>();
    rules.put("exportedPackages", exportedPackages(root));
    rules.put("noTransport", noTransport(root));
    rules.put("noEnvironment", noEnvironment());
    rules.put("noStandardStreams", noStandardStreams());
    rules.put("noGenericExceptions", noGenericExceptions());
    rules.put(
        "noCycles",
        slices().matching(root + ".(**)").should().beFreeOfCycles().allowEmptyShould(true));
    return rules;
  }

  private static ArchRule exportedPackages(String root) {
    return noClasses()
        .should()
        .dependOnClassesThat(
            resideInAPackage("org.nccl4j..")
                .and(not(resideInAnyPackage(EXPORTED)))
                .and(not(resideInAPackage(root + ".."))))
        .because("the class path hides no package, but the module path does");
  }

  private static ArchRule noTransport(String root) {
    return noClasses()
        .should()
        .dependOnClassesThat(
            resideInAPackage("org.nccl4j.transport..").and(not(resideInAPackage(root + ".."))))
        .because("users choose the transports");
  }

  private static ArchRule noEnvironment() {
    return noClasses()
        .should()
        .callMethod(System.class, "getenv")
        .orShould()
        .callMethod(System.class, "getenv", String.class)
        .because("the context has the settings, also those of files and programs");
  }

  private static ArchRule noStandardStreams() {
    return noClasses()
        .should()
        .accessField(System.class, "out")
        .orShould()
        .accessField(System.class, "err")
        .orShould()
        .callMethod(Throwable.class, "printStackTrace")
        .because("they belong to the program");
  }

  private static ArchRule noGenericExceptions() {
    return noClasses()
        .should()
        .callConstructor(RuntimeException.class)
        .orShould()
        .callConstructor(RuntimeException.class, String.class)
        .orShould()
        .callConstructor(RuntimeException.class, String.class, Throwable.class)
        .orShould()
        .callConstructor(RuntimeException.class, Throwable.class)
        .because("an NcclException has a remedy, and reaches all ranks");
  }
}
