package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The code in the guides for Spark and Flink is that of the programs that their profiles run. */
class JobGuidesTest {
  private static final Pattern CODE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

  @ParameterizedTest
  @CsvSource({"spark, 4", "flink, 3"})
  void showsWhatTheProgramsDo(String name, int blocks) throws IOException {
    String programs = programs(Path.of("src/test", name, "src/main/java"));
    List<String> shown =
        CODE.matcher(Files.readString(Path.of("..", "docs/guides", name + ".md")))
            .results()
            .map(code -> squeezed(code.group(1)))
            .toList();
    assertEquals(blocks, shown.size());
    shown.forEach(code -> assertTrue(programs.contains(code), code));
  }

  private static String programs(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      return files
          .filter(file -> file.toString().endsWith(".java"))
          .map(JobGuidesTest::text)
          .collect(Collectors.joining("\n"));
    }
  }

  private static String text(Path file) {
    try {
      return squeezed(Files.readString(file));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static String squeezed(String code) {
    return code.strip().replaceAll("\\s+", "");
  }
}
