package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;

/**
 * Compares the generated pages with the code. With the system property nccl4j.docs=write it writes
 * the pages.
 */
class ReferencePagesTest {
  private static final Path DOCS = Path.of("..", "docs");

  @Test
  void settings() throws IOException {
    StringBuilder page =
        new StringBuilder(
            """
            # Settings

            Generated from the code:

                mvn -o test -pl nccl-it -am -Dtest=ReferencePagesTest -Dnccl4j.docs=write \\
                  -Dsurefire.failIfNoSpecifiedTests=false

            Names that NCCL has mean the same as in NCCL. Names with `NCCL4J_` are nccl4j's own.
            `./nccl doctor --all` prints the values in force and their sources. The log points out a
            misspelt name.

            A setting has the first value in this list:

            1. the communicator's configuration (`CommunicatorConfig.with`),
            2. the Java system property of that name,
            3. the environment variable of that name,
            4. the file in `NCCL_CONF_FILE`, or `~/.nccl.conf` if that is unset,
            5. `/etc/nccl.conf`.

            | name | default | values | what it does |
            |---|---|---|---|
            """);
    for (Setting<?> setting : Settings.declared()) {
      String byDefault = setting.defaultText();
      page.append(
          "| `%s` | %s | %s | %s |%n"
              .formatted(
                  setting.name(),
                  byDefault.isBlank() ? "" : "`" + byDefault + "`",
                  cell(setting.allowed()),
                  cell(setting.sentence())));
    }
    check("reference/settings.md", page.toString());
  }

  private static String cell(String text) {
    return text.replace("|", "\\|");
  }

  @Test
  void errors() throws IOException {
    StringBuilder page =
        new StringBuilder(
            """
            # Errors

            Generated from the code (see ReferencePagesTest).

            Every error is an `NcclException` with one of NCCL's result codes and a kind (`id()`). Its
            message gives the fact, the place and the cause, then the remedy, and ends with the name of
            the kind in brackets. The name of a kind never changes. The first error of any rank
            reaches all ranks of its communicator: `asyncError()` and the streams report that first
            cause.

            | kind | result code | meaning | remedy |
            |---|---|---|---|
            """);
    for (NcclException.Code code : NcclException.Code.values()) {
      Stream.of(ErrorId.values())
          .filter(id -> id.code() == code)
          .forEach(
              id ->
                  page.append(
                      "| %s | `%s` | %s | %s |%n"
                          .formatted(
                              id.text(), code.name(), cell(id.meaning()), cell(id.remedy()))));
    }
    check("reference/errors.md", page.toString());
  }

  private static void check(String name, String text) throws IOException {
    Path page = DOCS.resolve(name);
    if ("write".equals(System.getProperty("nccl4j.docs"))) {
      Files.writeString(page, text);
    }
    assertEquals(
        text,
        Files.exists(page) ? Files.readString(page) : "",
        "docs/" + name + " is not what the code says; run this test with -Dnccl4j.docs=write");
  }
}
