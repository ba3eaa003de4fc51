package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** The programs of the tutorial compile, run, and print what is written there. */
class TutorialTest {
  private static final Path TUTORIAL = Path.of("..", "docs", "tutorial");
  private static final Pattern PRINTS = Pattern.compile("// prints (.*)");

  @TempDir private static Path folder;

  @TestFactory
  List<DynamicTest> steps() throws IOException {
    try (Stream<Path> pages = Files.list(TUTORIAL)) {
      List<DynamicTest> tests =
          pages
              .filter(page -> page.getFileName().toString().matches("[1-7]-.*\\.md"))
              .sorted()
              .map(page -> dynamicTest(page.getFileName().toString(), () -> run(page)))
              .toList();
      assertEquals(7, tests.size());
      return tests;
    }
  }

  private static void run(Path page) throws Exception {
    String text = Files.readString(page);
    int begin = text.indexOf("```java") + "```java\n".length();
    String program = text.substring(begin, text.indexOf("```", begin));
    Path source = folder.resolve("Step" + page.getFileName().toString().charAt(0) + ".java");
    Files.writeString(source, program);
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-Dtutorial.source=" + source,
                "-cp",
                ChaosRank.classPath(),
                source.toString())
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue(), output);
    Matcher expected = PRINTS.matcher(program);
    assertTrue(expected.find(), page.toString());
    do {
      String line = expected.group(1).trim();
      assertTrue(output.lines().anyMatch(line::equals), line + " is not among:\n" + output);
    } while (expected.find());
  }
}
