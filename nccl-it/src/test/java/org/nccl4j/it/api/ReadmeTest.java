package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.lang.module.ModuleFinder;
import java.lang.module.ModuleReference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The program in the README compiles, runs, and prints what it says; its pom is of this version.
 */
class ReadmeTest {
  @Test
  void theProgramRuns(@TempDir Path folder) throws Exception {
    Path source = folder.resolve("Hello.java");
    Files.writeString(source, firstBlock("java"));
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
    command.addAll(List.of("-cp", classPath(), source.toString()));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(300, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue(), output);
    assertTrue(output.lines().anyMatch("42.0"::equals), output);
  }

  /** Maven itself runs in src/test/outside/readme. */
  @Test
  void thePomNamesThisVersion() throws Exception {
    Matcher version =
        Pattern.compile("<version>(.*?)</version>")
            .matcher(Files.readString(Path.of("..", "pom.xml")));
    assertTrue(version.find());
    String wanted = "<artifactId>nccl-bom</artifactId>" + version.group();
    assertTrue(firstBlock("xml").contains(wanted), wanted);
  }

  /** The text of the first block of a language. */
  private static String firstBlock(String language) throws IOException {
    String readme = Files.readString(Path.of("..", "README.md"));
    String fence = "```" + language + "\n";
    int begin = readme.indexOf(fence) + fence.length();
    return readme.substring(begin, readme.indexOf("```", begin));
  }

  /** Everything that this test itself runs with, wherever the build put it. */
  private static String classPath() {
    Stream<String> modules =
        ModuleFinder.of(paths(System.getProperty("jdk.module.path"))).findAll().stream()
            .map(ModuleReference::location)
            .flatMap(location -> location.stream())
            .map(uri -> Path.of(uri).toString());
    return Stream.concat(modules, Stream.of(System.getProperty("java.class.path")))
        .collect(Collectors.joining(File.pathSeparator));
  }

  private static Path[] paths(String list) {
    return list == null || list.isEmpty()
        ? new Path[0]
        : Stream.of(list.split(File.pathSeparator)).map(Path::of).toArray(Path[]::new);
  }
}
