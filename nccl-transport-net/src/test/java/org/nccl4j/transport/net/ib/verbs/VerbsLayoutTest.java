package org.nccl4j.transport.net.ib.verbs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.transport.net.ib.NativeBuild;

/** The layout of libibverbs' structures is that of the installed headers, and what was recorded. */
class VerbsLayoutTest {
  private record Line(String name, int recorded, String expression) {}

  @TempDir private Path directory;

  @Test
  void constantsAreTheRecordedOnes() throws IOException, IllegalAccessException {
    Map<String, Integer> recorded = new TreeMap<>();
    lines().forEach(line -> recorded.put(line.name(), line.recorded()));
    Map<String, Integer> constants = new TreeMap<>();
    for (Field field : VerbsLayout.class.getDeclaredFields()) {
      if (field.getType() == int.class) {
        constants.put(field.getName(), field.getInt(null));
      }
    }
    assertEquals(recorded, constants);
  }

  @Test
  void constantsAreThoseOfTheHeaders() throws IOException {
    List<Line> lines = lines();
    StringBuilder program =
        new StringBuilder(
            "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n"
                + "int main(void) {\n");
    for (Line line : lines) {
      program.append(
          "printf(\"%s=%%ld\\n\", (long)(%s));\n".formatted(line.name(), line.expression()));
    }
    Path source = directory.resolve("layout.c");
    Files.writeString(source, program.append("return 0;\n}\n").toString());
    String binary = directory.resolve("layout").toString();
    NativeBuild.gcc("-o", binary, source.toString());
    String expected =
        lines.stream()
            .map(line -> line.name() + "=" + line.recorded() + "\n")
            .collect(Collectors.joining());
    assertEquals(expected, NativeBuild.run(List.of(binary)));
  }

  private static List<Line> lines() throws IOException {
    try (BufferedReader reader =
        new BufferedReader(
            new InputStreamReader(
                VerbsLayoutTest.class.getResourceAsStream("verbs-layout.txt"),
                StandardCharsets.UTF_8))) {
      return reader
          .lines()
          .filter(line -> !line.startsWith("#"))
          .map(line -> line.split("=", 3))
          .map(part -> new Line(part[0], Integer.parseInt(part[1]), part[2]))
          .toList();
    }
  }
}
