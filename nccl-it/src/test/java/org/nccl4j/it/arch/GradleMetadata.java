package org.nccl4j.it.arch;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** A module's description as Gradle gets it, which the build writes when it has made the jar. */
record GradleMetadata(Path folder, Map<?, ?> root) {
  /**
   * Reads the description of a folder of this project.
   *
   * @param folder below the root, such as {@code nccl-api}
   */
  static GradleMetadata read(String folder) throws IOException {
    Path target = Path.of("..", folder, "target");
    Path file = target.resolve("publications/maven/module.json");
    try (JsonParser json = new JsonFactory().createParser(Files.readString(file))) {
      json.nextToken();
      return new GradleMetadata(target, (Map<?, ?>) value(json));
    }
  }

  /** The name and version of this module. */
  String component() {
    return coordinates((Map<?, ?>) root.get("component"));
  }

  Map<?, ?> attributes(String variant) {
    return (Map<?, ?>) variant(variant).get("attributes");
  }

  /** The dependencies of a variant, as {@link PublishedPom#dependencies} writes them. */
  Set<String> dependencies(String variant) {
    return dependencies(variant, false);
  }

  /** The modules whose versions a variant recommends. */
  Set<String> platforms(String variant) {
    return dependencies(variant, true);
  }

  private Set<String> dependencies(String variant, boolean platforms) {
    Set<String> dependencies = new TreeSet<>();
    for (Map<?, ?> each : maps(variant(variant), "dependencies")) {
      Map<?, ?> attributes = each.get("attributes") instanceof Map<?, ?> map ? map : Map.of();
      if (platforms == "platform".equals(attributes.get("org.gradle.category"))) {
        Set<String> excluded = new TreeSet<>();
        maps(each, "excludes").forEach(e -> excluded.add(e.get("group") + ":" + e.get("module")));
        dependencies.add(coordinates(each) + " without " + excluded);
      }
    }
    return dependencies;
  }

  /** The jars of a variant, each with the checksum that its entry states. */
  Map<Path, String> checksums(String variant) {
    Map<Path, String> checksums = new LinkedHashMap<>();
    maps(variant(variant), "files")
        .forEach(each -> checksums.put(folder.resolve(text(each, "url")), text(each, "sha256")));
    return checksums;
  }

  private Map<?, ?> variant(String name) {
    for (Map<?, ?> each : maps(root, "variants")) {
      if (name.equals(each.get("name"))) {
        return each;
      }
    }
    throw new AssertionError("no variant " + name + " in " + folder);
  }

  private static String coordinates(Map<?, ?> module) {
    Object version = module.get("version");
    return "%s:%s:%s"
        .formatted(
            module.get("group"),
            module.get("module"),
            version instanceof Map<?, ?> range ? range.get("requires") : version);
  }

  private static List<Map<?, ?>> maps(Map<?, ?> parent, String name) {
    List<Map<?, ?>> maps = new ArrayList<>();
    if (parent.get(name) instanceof List<?> list) {
      list.forEach(each -> maps.add((Map<?, ?>) each));
    }
    return maps;
  }

  private static String text(Map<?, ?> parent, String name) {
    return (String) parent.get(name);
  }

  /** The value at the parser's token: an object, an array, a text or a number. */
  private static Object value(JsonParser json) throws IOException {
    if (json.currentToken() == JsonToken.START_OBJECT) {
      Map<String, Object> map = new LinkedHashMap<>();
      while (json.nextToken() != JsonToken.END_OBJECT) {
        String name = json.currentName();
        json.nextToken();
        map.put(name, value(json));
      }
      return map;
    }
    if (json.currentToken() == JsonToken.START_ARRAY) {
      List<Object> list = new ArrayList<>();
      while (json.nextToken() != JsonToken.END_ARRAY) {
        list.add(value(json));
      }
      return list;
    }
    return json.currentToken() == JsonToken.VALUE_NUMBER_INT
        ? (Object) json.getIntValue()
        : json.getText();
  }
}
