package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.settings.Setting;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;

/**
 * The pages that are made from the code are what the code says. With the system property
 * nccl4j.docs=write they are written instead.
 */
class ReferencePagesTest {
  private static final Path DOCS = Path.of("..", "docs");

  @Test
  void settings() throws IOException {
    StringBuilder page =
        new StringBuilder(
            """
            # Settings

            Made from the code (`mvn -o test -pl nccl-it -am -Dtest=ReferencePagesTest
            -Dnccl4j.docs=write -Dsurefire.failIfNoSpecifiedTests=false`).

            A setting is looked for, in this order, in the communicator's configuration
            (`CommunicatorConfig.with`), the Java system properties, the environment, the file that
            `NCCL_CONF_FILE` names or else `~/.nccl.conf`, and `/etc/nccl.conf`. Names that NCCL has
            mean what they mean there; `NCCL4J_` names are this library's own. `./nccl doctor --all` shows
            the values in force and where each was set. A name that is not a setting, but nearly, is
            pointed out in the log.

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

            Made from the code (see ReferencePagesTest).

            Every error is an `NcclException` with a result code, NCCL's, and a kind (`id()`). Its
            message says what happened, where and why, then the remedy, and ends with the kind's name
            in brackets, which never changes. The first error of any rank reaches all ranks of its
            communicator: `asyncError()` and the streams give that first cause.

            | kind | result code | what | what to do |
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
