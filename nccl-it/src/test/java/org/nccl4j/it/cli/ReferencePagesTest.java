package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
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

  /** The sections of the settings page, with the names of each; the first that matches counts. */
  private static final Map<String, String> SECTIONS = sections();

  private static final String OTHERS = "Algorithms and channels";

  private static Map<String, String> sections() {
    Map<String, String> names = new LinkedHashMap<>();
    names.put(
        "Creation",
        "NCCL_COMM_.*|NCCL4J_COMM_.*|NCCL4J_BOOTSTRAP_.*|NCCL_HOSTID|NCCL4J_INIT_.*|NCCL_UID_.*"
            + "|NCCL_CONF_FILE|NCCL4J_TLS_.*|NCCL4J_WARMUP");
    names.put(
        "Timeouts, checks and the log",
        "NCCL_DEBUG.*|NCCL4J_FLIGHT_.*|NCCL_CHECK_.*|NCCL_PROFILER_.*|NCCL4J_.*TIMEOUT");
    names.put("libnccl.so.2", "NCCL4J_DEVICE|NCCL4J_JAVA_HOME|NCCL4J_CLASS_PATH");
    names.put("NVLink SHARP", ".*_NVLS_.*");
    names.put("InfiniBand and RoCE", "NCCL_IB.*|NCCL_DMABUF_.*");
    names.put(
        "Networks",
        "NCCL4J_NET_.*|NCCL_NET_?.*|NCCL_SOCKET_.*|NCCL_NSOCKS_.*|NCCL_CROSS_NIC|.*PXN_.*");
    names.put(
        "GPUs and memory",
        "NCCL_SHM_.*|NCCL4J_SHM|NCCL4J_TRANSPORTS|NCCL_P2P_DISABLE|NCCL_P2P_USE_.*|NCCL4J_P2P_.*"
            + "|NCCL_CUMEM_.*|NCCL_MULTI_RANK_.*|NCCL_WIN_.*|NCCL4J_PRELOAD_.*|NCCL_LAUNCH_.*"
            + "|NCCL_CGA_.*");
    names.put(
        "Topology",
        "NCCL_TOPO_.*|NCCL_GRAPH_.*|NCCL4J_TOPO_.*|NCCL_MNNVL_.*|NCCL_NVB_.*|NCCL_P2P_LEVEL"
            + "|NCCL_IGNORE_.*");
    return names;
  }

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

            Lines of files are NAME=VALUE; quotes around the whole value are removed. An empty value
            counts as none.

            Not settings: NCCL4J_RANK, NCCL4J_NRANKS, NCCL4J_LOCAL_RANK and NCCL4J_UNIQUE_ID
            ([launchers](../guides/launchers.md)), NCCL_JAVA_OPTIONS (options of the JVM of
            `./nccl` and libnccl.so.2), NCCL4J_FAULTS
            ([failures](../guides/networks.md#failures)), and the Java property `nccl4j.native`
            ([embedding](../guides/embedding.md)).
            """);
    Map<String, List<Setting<?>>> sections =
        Settings.declared().stream().collect(Collectors.groupingBy(ReferencePagesTest::section));
    for (String title : Stream.concat(SECTIONS.keySet().stream(), Stream.of(OTHERS)).toList()) {
      page.append(
          """

          ## %s

          | name | default | values | what it does |
          |---|---|---|---|
          """
              .formatted(title));
      sections.get(title).forEach(setting -> page.append(row(setting)));
    }
    check("reference/settings.md", page.toString());
  }

  private static String section(Setting<?> setting) {
    return SECTIONS.entrySet().stream()
        .filter(section -> setting.name().matches(section.getValue()))
        .map(Map.Entry::getKey)
        .findFirst()
        .orElse(OTHERS);
  }

  private static String row(Setting<?> setting) {
    String byDefault = setting.defaultText();
    return "| `%s` | %s | %s | %s |%n"
        .formatted(
            setting.name(),
            byDefault.isBlank() ? "" : "`" + byDefault + "`",
            cell(setting.allowed()),
            cell(setting.sentence()));
  }

  @Test
  void variables() throws IOException {
    StringBuilder page =
        new StringBuilder(
            """
            # NCCL's variables

            Generated from the code (see ReferencePagesTest).

            Each environment variable that NCCL 2.30.7 documents or reads, without debugging
            aids of single plug-ins. A variable without effect gets a line in the log when it is
            set.

            | variable | honoured | note |
            |---|---|---|
            """);
    SortedMap<String, String> rows = new TreeMap<>();
    Settings.otherVariables().forEach((name, instead) -> rows.put(name, "no | " + instead));
    for (Setting<?> setting : Settings.declared()) {
      if (setting.name().startsWith("NCCL_")) {
        boolean without =
            Settings.alone(Map.of(setting.name(), "1")).hints().stream().findAny().isPresent();
        rows.put(
            setting.name(),
            (without ? "in `./nccl topo` alone | " : "yes | ") + cell(setting.sentence()));
      }
    }
    rows.forEach((name, row) -> page.append("| `%s` | %s |%n".formatted(name, row)));
    check("reference/nccl-variables.md", page.toString());
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
            cause. An error of a call that is refused before anything is launched stays on the rank that
            called: all of `INVALID_ARGUMENT`, and of `INVALID_USAGE` those of wrong groups and closed
            objects. Its communicator remains usable, and the others wait until that rank calls again or
            closes, or until their deadline.

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
