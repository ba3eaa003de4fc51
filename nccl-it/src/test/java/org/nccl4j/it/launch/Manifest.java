package org.nccl4j.it.launch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/**
 * A Service and a Job of docs/guides/kubernetes.md. Numbers in YAML are Integers, texts Strings.
 *
 * @param service the first document
 * @param job the second
 */
record Manifest(Map<?, ?> service, Map<?, ?> job) {
  private static final Path PAGE = Path.of("..", "docs", "guides", "kubernetes.md");
  private static final Pattern YAML = Pattern.compile("```yaml\n(.*?)```", Pattern.DOTALL);

  /** All on the page. A name that occurs twice in a mapping is an error. */
  static List<Manifest> ofPage() throws IOException {
    LoaderOptions strict = new LoaderOptions();
    strict.setAllowDuplicateKeys(false);
    List<Manifest> manifests = new ArrayList<>();
    for (var block : YAML.matcher(Files.readString(PAGE)).results().toList()) {
      List<Map<?, ?>> documents = new ArrayList<>();
      for (Object document : new Yaml(new SafeConstructor(strict)).loadAll(block.group(1))) {
        documents.add((Map<?, ?>) document);
      }
      if (documents.size() != 2) {
        throw new AssertionError(documents.size() + " documents: " + block.group(1));
      }
      manifests.add(new Manifest(documents.get(0), documents.get(1)));
    }
    return manifests;
  }

  /** What is at a path of names and of numbers of list elements, such as "spec containers 0". */
  static Object at(Object within, String path) {
    Object found = within;
    for (String step : path.split(" ")) {
      found =
          found instanceof List<?> list
              ? list.get(Integer.parseInt(step))
              : ((Map<?, ?>) found).get(step);
      if (found == null) {
        throw new AssertionError("there is no " + step + " of " + path + " in " + within);
      }
    }
    return found;
  }

  Map<?, ?> pod() {
    return (Map<?, ?>) at(job, "spec template spec");
  }

  Map<?, ?> container() {
    return (Map<?, ?>) at(pod(), "containers 0");
  }

  int pods() {
    return (Integer) at(job, "spec completions");
  }

  int limit(String resource) {
    return (Integer) ((Map<?, ?>) at(container(), "resources limits")).get(resource);
  }

  /**
   * The environment of a pod, as Kubernetes makes it.
   *
   * @param secret in place of what the secret named by the manifest has
   */
  Map<String, String> environment(int index, String secret) {
    Map<String, String> environment = new TreeMap<>();
    for (Object variable : (List<?>) at(container(), "env")) {
      Map<?, ?> entry = (Map<?, ?>) variable;
      String name = (String) at(entry, "name");
      if (entry.containsKey("valueFrom")) {
        at(entry, "valueFrom secretKeyRef name");
        at(entry, "valueFrom secretKeyRef key");
        environment.put(name, secret);
      } else {
        environment.put(name, (String) at(entry, "value")); // Kubernetes refuses other types
      }
    }
    environment.put("JOB_COMPLETION_INDEX", Integer.toString(index));
    return environment;
  }

  /** The variables that the library is to read. */
  Set<String> ownVariables() {
    Set<String> own = new TreeSet<>(environment(0, "").keySet());
    own.removeIf(name -> !name.startsWith("NCCL"));
    return own;
  }

  List<String> command() {
    return ((List<?>) at(container(), "command")).stream().map(String.class::cast).toList();
  }
}
