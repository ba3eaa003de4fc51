package org.nccl4j.it.arch;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.assignableTo;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.simpleName;
import static com.tngtech.archunit.core.domain.properties.HasName.Predicates.name;
import static com.tngtech.archunit.core.domain.properties.HasName.Predicates.nameStartingWith;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The architecture as rules over packages, below any root package, so that the same rules are run
 * over the project and over fixtures that break them.
 */
final class ArchitectureRules {
  /** The packages that users see. */
  private static final Set<String> EXPORTED = exported();

  private final String root;
  private final StructureLimits limits;

  ArchitectureRules(String root, StructureLimits limits) {
    this.root = root;
    this.limits = limits;
  }

  /** All rules, by name. */
  Map<String, ArchRule> all() {
    Map<String, ArchRule> rules = new LinkedHashMap<>();
    rules.put("modules", modules());
    rules.put("engine", engine());
    rules.put("cycles", slices().matching(root + ".(**)").should().beFreeOfCycles());
    rules.put("typeCycles", classes().should(limits.haveShortCycles(root)));
    rules.put("packageSizes", classes().should(limits.bePackagedInFewFiles(root)));
    rules.put("methodSizes", classes().should(limits.haveShortMethods()));
    rules.put("fileSizes", classes().should(limits.beInShortFiles()));
    rules.put("hotPaths", classes().should(new HotPathRule()));
    rules.put("cudaRooms", cudaRooms());
    rules.put("transportsAreStrangers", transportsAreStrangers());
    rules.put("transportsSeeNoEngine", transportsSeeNoEngine());
    rules.put("artifactsOfTheClassPathSeeThePublicApi", artifactsOfTheClassPathSeeThePublicApi());
    rules.put("jcudaStaysInside", jcudaStaysInside());
    rules.put("jcudaIsNotCalled", jcudaIsNotCalled());
    rules.put("jnrStaysInside", jnrStaysInside());
    rules.put("oneServiceLoader", oneServiceLoader());
    rules.put("oneEnvironment", oneEnvironment());
    rules.put("onePark", onePark());
    rules.put("noStandardStreams", noStandardStreams());
    rules.put("noGenericExceptions", noGenericExceptions());
    rules.put("noVagueNames", noVagueNames());
    rules.put("publicApiIsExported", publicApiIsExported());
    return rules;
  }

  private String in(String packages) {
    return root + "." + packages;
  }

  /** Every class belongs to a module, and modules depend on each other as the design says. */
  private ArchRule modules() {
    return layeredArchitecture()
        .consideringOnlyDependenciesInAnyPackage(root + "..")
        .layer("operation")
        .definedBy(in("operation.."))
        .layer("topo")
        .definedBy(in("topo.."))
        .layer("device")
        .definedBy(in("device.."))
        .layer("kernels")
        .definedBy(in("kernels.."))
        .layer("api")
        .definedBy(in("api.."))
        .layer("transports")
        .definedBy(in("transport.."))
        .layer("testkit")
        .definedBy(in("testkit.."))
        .layer("spark")
        .definedBy(in("spark.."))
        .layer("opentelemetry")
        .definedBy(in("opentelemetry.."))
        .layer("it")
        .definedBy(in("it.."))
        .whereLayer("it")
        .mayNotBeAccessedByAnyLayer()
        .whereLayer("spark")
        .mayNotBeAccessedByAnyLayer()
        .whereLayer("opentelemetry")
        .mayNotBeAccessedByAnyLayer()
        .whereLayer("testkit")
        .mayNotBeAccessedByAnyLayer()
        .whereLayer("kernels")
        .mayNotBeAccessedByAnyLayer()
        .whereLayer("transports")
        .mayOnlyBeAccessedByLayers("testkit", "it")
        .whereLayer("api")
        .mayOnlyBeAccessedByLayers("transports", "testkit", "spark", "opentelemetry", "it")
        .whereLayer("device")
        .mayOnlyBeAccessedByLayers(
            "kernels", "api", "transports", "testkit", "spark", "opentelemetry", "it")
        .whereLayer("topo")
        .mayOnlyBeAccessedByLayers("api", "transports", "it")
        .ensureAllClassesAreContainedInArchitectureIgnoring(root);
  }

  /** The engine's layers are one-way. */
  private ArchRule engine() {
    return layeredArchitecture()
        .consideringOnlyDependenciesInAnyPackage(in("api.."))
        .layer("communicator")
        .definedBy(in("api"))
        .layer("exchange")
        .definedBy(in("api.exchange.."))
        .layer("init")
        .definedBy(in("api.init.."))
        .layer("group")
        .definedBy(in("api.group.."))
        .layer("plan")
        .definedBy(in("api.plan.."))
        .layer("launch")
        .definedBy(in("api.launch.."))
        .layer("window")
        .definedBy(in("api.window.."))
        .layer("observe")
        .definedBy(in("api.observe.."))
        .layer("proxy")
        .definedBy(in("api.proxy.."))
        .layer("registry")
        .definedBy(in("api.registry.."))
        .layer("bootstrap")
        .definedBy(in("api.bootstrap.."))
        .layer("settings")
        .definedBy(in("api.settings.."))
        .layer("wire")
        .definedBy(in("api.wire.."))
        .layer("multicast")
        .definedBy(in("api.multicast.."))
        .layer("spi")
        .definedBy(in("api.spi.."))
        .whereLayer("communicator")
        .mayNotBeAccessedByAnyLayer()
        .whereLayer("exchange")
        .mayOnlyBeAccessedByLayers("communicator")
        .whereLayer("init")
        .mayOnlyBeAccessedByLayers("communicator", "exchange")
        .whereLayer("group")
        .mayOnlyBeAccessedByLayers("communicator", "exchange", "init")
        .whereLayer("plan")
        .mayOnlyBeAccessedByLayers("communicator", "exchange", "init", "group")
        .whereLayer("launch")
        .mayOnlyBeAccessedByLayers("exchange", "init", "group", "plan")
        .whereLayer("observe")
        .mayOnlyBeAccessedByLayers("communicator", "init", "launch")
        .whereLayer("proxy")
        .mayOnlyBeAccessedByLayers("init", "launch")
        .whereLayer("registry")
        .mayOnlyBeAccessedByLayers("init")
        .whereLayer("bootstrap")
        .mayOnlyBeAccessedByLayers("communicator", "init", "window", "observe")
        .whereLayer("settings")
        .mayOnlyBeAccessedByLayers(
            "communicator",
            "init",
            "group",
            "plan",
            "launch",
            "window",
            "observe",
            "proxy",
            "registry",
            "bootstrap")
        .whereLayer("wire")
        .mayOnlyBeAccessedByLayers("bootstrap", "settings", "init", "window")
        .whereLayer("window")
        .mayOnlyBeAccessedByLayers("communicator", "exchange", "init", "group", "plan")
        .whereLayer("multicast")
        .mayOnlyBeAccessedByLayers("init", "registry", "window")
        .whereLayer("spi")
        .mayOnlyBeAccessedByLayers(
            "communicator",
            "init",
            "observe",
            "proxy",
            "registry",
            "settings",
            "window",
            "multicast");
  }

  /** The packages of the CUDA device are one-way: each names what is below it. */
  private ArchRule cudaRooms() {
    String[] rooms = {
      "nvml", "driver", "module", "memory", "stream", "plan", "copy", "rma", "window"
    };
    var layers =
        layeredArchitecture()
            .consideringOnlyDependenciesInAnyPackage(in("device.cuda.."))
            .layer("device")
            .definedBy(in("device.cuda"));
    for (String room : rooms) {
      layers = layers.layer(room).definedBy(in("device.cuda." + room + ".."));
    }
    return layers
        .whereLayer("nvml")
        .mayOnlyBeAccessedByLayers("driver", "device")
        .whereLayer("driver")
        .mayOnlyBeAccessedByLayers(
            "module", "memory", "stream", "plan", "copy", "rma", "window", "device")
        .whereLayer("module")
        .mayOnlyBeAccessedByLayers("plan", "copy", "window", "device")
        .whereLayer("memory")
        .mayOnlyBeAccessedByLayers("plan", "copy", "rma", "window", "device")
        .whereLayer("stream")
        .mayOnlyBeAccessedByLayers("plan", "copy", "rma", "window", "device")
        .whereLayer("plan")
        .mayOnlyBeAccessedByLayers("copy", "rma", "window", "device")
        .whereLayer("copy")
        .mayOnlyBeAccessedByLayers("window", "device")
        .whereLayer("rma")
        .mayOnlyBeAccessedByLayers("device")
        .whereLayer("window")
        .mayOnlyBeAccessedByLayers("device")
        .whereLayer("device")
        .mayNotBeAccessedByAnyLayer();
  }

  private ArchRule transportsAreStrangers() {
    return slices()
        .matching(in("transport.(*).."))
        .should()
        .notDependOnEachOther()
        .allowEmptyShould(true);
  }

  private ArchRule transportsSeeNoEngine() {
    return noClasses()
        .that()
        .resideInAPackage(in("transport.."))
        .should()
        .dependOnClassesThat(
            resideInAPackage(in("api.."))
                .and(
                    not(
                        resideInAnyPackage(
                            in("api.spi.."),
                            in("api.multicast.."),
                            in("api.settings.."),
                            in("api.wire..")))));
  }

  /** They are no modules, so nothing else keeps them from the packages that modules hide. */
  private ArchRule artifactsOfTheClassPathSeeThePublicApi() {
    return noClasses()
        .that()
        .resideInAnyPackage(in("spark.."), in("opentelemetry.."))
        .should()
        .dependOnClassesThat(
            new DescribedPredicate<>("are hidden") {
              @Override
              public boolean test(JavaClass type) {
                String name = type.getPackageName();
                return name.startsWith(root + ".")
                    && !name.startsWith(in("spark"))
                    && !name.startsWith(in("opentelemetry"))
                    && !isExported(name);
              }
            });
  }

  /** Only these load classes of JCuda, which is an optional module. Constants are compiled in. */
  private ArchRule jcudaStaysInside() {
    return noClasses()
        .that(
            not(name(in("device.cuda.CudaDevice")))
                .and(not(nameStartingWith(in("device.cuda.Handles")))))
        .should()
        .dependOnClassesThat()
        .resideInAPackage("jcuda..");
  }

  /** A switch of JCuda's, which users set, turns statuses into exceptions. */
  private ArchRule jcudaIsNotCalled() {
    return noClasses().should().dependOnClassesThat().haveNameMatching("jcuda\\..*\\.JCuda\\w*");
  }

  private ArchRule jnrStaysInside() {
    return noClasses()
        .that(
            not(
                resideInAnyPackage(
                    in("device.bind.."),
                    in("device.cuda.."),
                    in("device.shm.."),
                    in("device.host.memory.."),
                    in("transport.net.ib.."))))
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage("jnr..", "com.kenai.jffi..");
  }

  private ArchRule oneServiceLoader() {
    return noClasses()
        .that(
            not(simpleName("Providers"))
                .and(not(simpleName("ClassPreloader")))
                .and(not(simpleName("KernelFiles"))))
        .should()
        .dependOnClassesThat()
        .belongToAnyOf(ServiceLoader.class);
  }

  private ArchRule oneEnvironment() {
    return noClasses()
        .that(not(name(in("api.settings.Environment"))))
        .should()
        .callMethod(System.class, "getenv")
        .orShould()
        .callMethod(System.class, "getenv", String.class);
  }

  /** On an interrupted thread LockSupport does not wait, and a loop around it spins. */
  private ArchRule onePark() {
    return noClasses()
        .that(not(simpleName("Patience")).and(not(resideInAnyPackage(in("it..")))))
        .should()
        .callMethod(LockSupport.class, "parkNanos", long.class)
        .orShould()
        .callMethod(LockSupport.class, "parkNanos", Object.class, long.class)
        .orShould()
        .callMethod(LockSupport.class, "park", Object.class)
        .orShould()
        .callMethod(LockSupport.class, "park");
  }

  private ArchRule noStandardStreams() {
    return noClasses()
        .that(not(resideInAnyPackage(in("it.."), in("testkit.."))))
        .should()
        .accessField(System.class, "out")
        .orShould()
        .accessField(System.class, "err")
        .orShould()
        .callMethod(Throwable.class, "printStackTrace");
  }

  private ArchRule noGenericExceptions() {
    return noClasses()
        .that(
            not(resideInAnyPackage(in("it.."), in("testkit..")))
                .and(not(assignableTo(Throwable.class))))
        .should()
        .callConstructor(RuntimeException.class, String.class)
        .orShould()
        .callConstructor(RuntimeException.class, String.class, Throwable.class)
        .orShould()
        .callConstructor(RuntimeException.class, Throwable.class)
        .orShould()
        .callConstructor(RuntimeException.class)
        .orShould()
        .callConstructor(Exception.class, String.class)
        .orShould()
        .callConstructor(Error.class, String.class);
  }

  private ArchRule noVagueNames() {
    return noClasses().should().haveNameMatching(".*(Manager|Helper|Util|Utils|Common|Misc)");
  }

  /** Signatures in an exported package name only exported types, or another library's. */
  private ArchRule publicApiIsExported() {
    return classes()
        .that()
        .resideInAnyPackage(in("api"), in("api.spi"), in("spark"), in("opentelemetry"))
        .and()
        .arePublic()
        .should(mentionOnlyExportedTypes());
  }

  private ArchCondition<JavaClass> mentionOnlyExportedTypes() {
    return new ArchCondition<>("mention only exported types") {
      @Override
      public void check(JavaClass type, ConditionEvents events) {
        type.getMethods().stream()
            .filter(method -> !method.getModifiers().contains(JavaModifier.PRIVATE))
            .filter(
                method ->
                    method.getModifiers().contains(JavaModifier.PUBLIC)
                        || method.getModifiers().contains(JavaModifier.PROTECTED))
            .forEach(
                method -> {
                  method
                      .getRawParameterTypes()
                      .forEach(t -> check(t, method.getFullName(), events));
                  check(method.getRawReturnType(), method.getFullName(), events);
                });
      }

      private void check(JavaClass mentioned, String where, ConditionEvents events) {
        String name = mentioned.getPackageName();
        boolean hidden = name.startsWith(root + ".") && !isExported(name);
        if (hidden) {
          events.add(
              SimpleConditionEvent.violated(mentioned, where + " mentions " + mentioned.getName()));
        }
      }
    };
  }

  /** True for a package that its module exports to all; fixtures' packages count as ours. */
  private boolean isExported(String name) {
    return EXPORTED.contains("org.nccl4j" + name.substring(root.length()));
  }

  private static Set<String> exported() {
    Stream<String> ofModules =
        Stream.of("nccl-topo", "nccl-device", "nccl-api")
            .map(module -> Path.of("..", module, "target", "classes"))
            .flatMap(classes -> ModuleFinder.of(classes).findAll().stream())
            .flatMap(module -> module.descriptor().exports().stream())
            .filter(export -> !export.isQualified())
            .map(ModuleDescriptor.Exports::source);
    // These have no descriptors: the jars that they use have names that no module can require.
    return Stream.concat(ofModules, Stream.of("org.nccl4j.spark", "org.nccl4j.opentelemetry"))
        .collect(Collectors.toSet());
  }
}
