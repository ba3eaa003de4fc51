package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The code in docs/guides/interop.md is that of the programs in outside, which run.sh runs. */
class InteropGuideTest {
  private static final Pattern EXCERPT =
      Pattern.compile("From `([a-z0-9/-]+/\\w+\\.java)`:\\s+```java\\n(.*?)```", Pattern.DOTALL);

  @Test
  void showsWhatTheProgramsDo() throws IOException {
    Matcher excerpt = EXCERPT.matcher(Files.readString(Path.of("..", "docs/guides/interop.md")));
    int excerpts = 0;
    while (excerpt.find()) {
      String program = squeezed(Files.readString(Path.of("src/test/outside", excerpt.group(1))));
      for (String line : excerpt.group(2).lines().toList()) {
        assertTrue(program.contains(squeezed(line)), excerpt.group(1) + " lacks " + line);
      }
      excerpts++;
    }
    assertEquals(5, excerpts);
  }

  private static String squeezed(String code) {
    return code.replaceAll("\\s+", "");
  }
}
