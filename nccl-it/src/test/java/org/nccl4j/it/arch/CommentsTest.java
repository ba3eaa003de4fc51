package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Comments of types and packages begin with what they are or do; packages name their layer. */
class CommentsTest {
  private static final Path ROOT = Path.of("..");

  /** The type or package behind a comment, and annotations and modifiers between. */
  private static final Pattern DECLARATION =
      Pattern.compile(
          "\\s*(?:@\\w+(?:\\([^)]*\\))?\\s+|[a-z-]+\\s+)*?"
              + "(?:class|interface|enum|record|@interface|package)\\s+([\\w.]+)");

  private static final Pattern CLAUSE =
      Pattern.compile("[\\s*]*(What|Whether|How|Who|That|Whose|Whom)\\b");

  /** The names of types and packages whose comments begin with a clause. */
  private static List<String> clauses(String source) {
    List<String> found = new ArrayList<>();
    Matcher declaration = DECLARATION.matcher(source);
    for (int begin = source.indexOf("/**"); begin >= 0; begin = source.indexOf("/**", begin + 3)) {
      int end = source.indexOf("*/", begin);
      boolean begins = end > 0 && CLAUSE.matcher(source).region(begin + 3, end).lookingAt();
      if (begins && declaration.region(end + 2, source.length()).lookingAt()) {
        found.add(declaration.group(1));
      }
    }
    return found;
  }

  private static List<Path> sources() throws IOException {
    try (Stream<Path> files = Files.walk(ROOT)) {
      return files
          .filter(file -> file.toString().matches(".*/src/(main|test)/.*\\.java"))
          .filter(file -> !file.toString().contains("/target/"))
          .filter(file -> !file.endsWith("CommentsTest.java"))
          .toList();
    }
  }

  @Test
  void typesBeginWithWhatTheyAre() throws IOException {
    List<Path> sources = sources();
    assertTrue(sources.size() > 1000, sources.size() + " sources");
    for (Path file : sources) {
      assertEquals(List.of(), clauses(Files.readString(file)), file::toString);
    }
  }

  @Test
  void packagesOfTheLibraryNameTheirLayer() throws IOException {
    int looked = 0;
    for (Path file : sources()) {
      String path = file.toString();
      if (path.endsWith("/package-info.java") && path.matches("\\.\\./nccl-(?!it/).*/main/.*")) {
        looked++;
        assertTrue(Files.readString(file).contains("Layer:"), () -> path + " names no layer");
      }
    }
    assertTrue(looked > 50, looked + " packages");
  }

  @Test
  void aClauseIsFound() {
    String source =
        """
        /**
         * What is sent.
         */
        @Deprecated
        public final class Sent {
          /** A method. Whether it is one. */
          int one() {}

          /** Who receives. */
          private record Received(int n) {}

          /** A letter. */
          enum Letter {}
        }
        """;
    assertEquals(List.of("Sent", "Received"), clauses(source));
    assertEquals(List.of("org.x"), clauses("/** How it goes. */\npackage org.x;\n"));
  }
}
