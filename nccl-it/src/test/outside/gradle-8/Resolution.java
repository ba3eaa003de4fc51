import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.gradle.api.Project;
import org.gradle.api.artifacts.Configuration;
import org.gradle.api.artifacts.result.ResolvedComponentResult;
import org.gradle.api.attributes.java.TargetJvmVersion;
import org.gradle.testfixtures.ProjectBuilder;

/** Resolves nccl4j as the build in docs/guides/build-tools.md does, and prints the jars. */
public final class Resolution {
  private final Project project;

  private Resolution(File folder, File home) {
    project = ProjectBuilder.builder().withProjectDir(folder).withGradleUserHomeDir(home).build();
    project.getPluginManager().apply("java");
  }

  /** A folder for the project, Gradle's home, a repository of 0.0.1, the installed version. */
  public static void main(String[] arguments) {
    Resolution resolution = new Resolution(new File(arguments[0]), new File(arguments[1]));
    resolution.lines(new File(arguments[2]), arguments[3]);
    resolution.jars();
    resolution.oneVersion(arguments[3]);
    resolution.oldJava();
    System.exit(0); // threads of Gradle stay
  }

  private void lines(File older, String version) {
    var repositories = project.getRepositories();
    repositories.mavenLocal(local -> local.content(content -> content.includeGroup("org.nccl4j")));
    repositories.maven(
        maven -> {
          maven.setUrl(older);
          maven.content(content -> content.includeGroup("org.nccl4j"));
        });
    repositories.mavenCentral();
    var dependencies = project.getDependencies();
    dependencies.add(
        "implementation", dependencies.platform("org.nccl4j:nccl-bom:" + version));
    dependencies.add("implementation", "org.nccl4j:nccl-api");
    dependencies.add("runtimeOnly", "org.nccl4j:nccl-transport-p2p");
  }

  private void jars() {
    Configuration runtime = project.getConfigurations().getByName("runtimeClasspath");
    for (File jar : runtime) {
      System.out.println(jar);
    }
    Map<String, String> variants = components(runtime, false);
    variants.forEach(
        (artifact, variant) -> {
          String metadata = artifact.equals("nccl-bom") ? "platform-runtime" : "runtimeElements";
          check(variant.equals(metadata), artifact + " is " + variant + ", so of its pom");
        });
    check(variants.size() == 6, "artifacts of nccl4j: " + variants);
  }

  /** A transport of an older version gets the version of the others. */
  private void oneVersion(String version) {
    var dependencies = project.getDependencies();
    Configuration mixed = project.getConfigurations().getByName("runtimeClasspath").copy();
    for (String each : List.of("nccl-transport-p2p:0.0.1", "nccl-topo:" + version)) {
      mixed.getDependencies().add(dependencies.create("org.nccl4j:" + each));
    }
    components(mixed, true)
        .forEach((artifact, each) -> check(each.equals(version), artifact + " is of " + each));
  }

  private void oldJava() {
    Configuration old = project.getConfigurations().getByName("runtimeClasspath").copyRecursive();
    old.getAttributes().attribute(TargetJvmVersion.TARGET_JVM_VERSION_ATTRIBUTE, 11);
    String said = "nothing";
    try {
      old.resolve();
    } catch (RuntimeException e) {
      said = "";
      for (Throwable each = e; each != null; each = each.getCause()) {
        said += each.getMessage() + "\n";
      }
    }
    check(said.contains("only compatible with JVM runtime version 17 or newer"), said);
  }

  /** The variant or the version of each artifact of nccl4j. */
  private static Map<String, String> components(Configuration configuration, boolean version) {
    Map<String, String> found = new TreeMap<>();
    for (ResolvedComponentResult each :
        configuration.getIncoming().getResolutionResult().getAllComponents()) {
      var module = each.getModuleVersion();
      if (module.getGroup().equals("org.nccl4j")) {
        found.put(
            module.getName(),
            version ? module.getVersion() : each.getVariants().get(0).getDisplayName());
      }
    }
    return found;
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new AssertionError(otherwise);
    }
  }
}
