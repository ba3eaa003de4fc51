package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(600)
final class DoctorTest {
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  @Test
  void everyLineHasAStatusAndEveryProblemAFix() {
    int status = Main.run(new PrintWriter(out), new PrintWriter(err), "doctor");
    List<String> lines = out.toString().lines().toList();
    for (int i = 0; i < lines.size() - 1; i++) {
      String line = lines.get(i);
      assertTrue(line.matches("(OK|WARN|MISSING|WRONG|SETTING) +\\S.*| +fix: .*"), line);
      if (line.matches("(WARN|MISSING|WRONG) .*")) {
        assertTrue(lines.get(i + 1).strip().startsWith("fix: "), line);
      }
    }
    String last = lines.get(lines.size() - 1);
    boolean isGood = lines.stream().noneMatch(line -> line.matches("(WARN|MISSING|WRONG) .*"));
    String some =
        "Communicators (of the host device )?work here; the lines with MISSING and WARN .*"
            + "|It is unknown whether communicators work here: .*";
    assertTrue(
        last.matches(
            status != 0
                ? "No communicator can be created until the lines with WRONG are repaired."
                : isGood ? "All requirements are met on this machine." : some),
        last);
  }

  @Test
  void theGpusThatKernelsAreForAreListed() {
    Main.run(new PrintWriter(out), new PrintWriter(err), "doctor");
    assertTrue(
        out.toString()
            .lines()
            .anyMatch(
                line ->
                    line.matches(
                        "OK +fatbins +CUDA kernels for compute capability [0-9., ]+and PTX .*"
                            + "|MISSING +fatbins +there are no CUDA kernels: .*")),
        out::toString);
  }

  @Test
  void jsonNamesAllSubjects() throws IOException {
    Main.run(new PrintWriter(out), new PrintWriter(err), "doctor", "--json");
    TreeSet<String> subjects = new TreeSet<>();
    try (JsonParser json = new JsonFactory().createParser(out.toString())) {
      JsonToken token;
      while ((token = json.nextToken()) != null) {
        if (token == JsonToken.VALUE_STRING && "subject".equals(json.currentName())) {
          subjects.add(json.getText());
        }
      }
    }
    assertTrue(
        subjects.containsAll(
            List.of(
                "java",
                "cores",
                "memory",
                "libc",
                "memfd",
                "/dev/shm",
                "host device",
                "cuda",
                "nvml")),
        subjects::toString);
    assertTrue(subjects.containsAll(List.of("fatbins", "libibverbs", "infiniband", "open mpi")));
  }

  @Test
  void settingsAreListedWithTheirOriginAndMistakesNamed() {
    System.setProperty("NCCL4J_TIMEOUT", "77s");
    System.setProperty("NCCL_DEBUG", "LOUD");
    System.setProperty("NCCL4J_TIMOUT", "1s");
    try {
      assertEquals(1, Main.run(new PrintWriter(out), new PrintWriter(err), "doctor"));
    } finally {
      System.clearProperty("NCCL4J_TIMEOUT");
      System.clearProperty("NCCL_DEBUG");
      System.clearProperty("NCCL4J_TIMOUT");
    }
    List<String> lines = out.toString().lines().toList();
    assertTrue(lines.contains("SETTING  NCCL4J_TIMEOUT=77s  (system property)"), out::toString);
    String unset = "SETTING  NCCL4J_NET_FAILOVER_TIMEOUT=10s";
    assertFalse(lines.contains(unset), out::toString);
    Main.run(new PrintWriter(out), new PrintWriter(err), "doctor", "--all");
    assertTrue(out.toString().lines().anyMatch(unset::equals), out::toString);
    assertTrue(
        lines.stream().anyMatch(line -> line.matches("WRONG +settings +the setting NCCL_DEBUG .*")),
        out::toString);
    assertTrue(out.toString().contains("the setting NCCL_DEBUG is \"LOUD\""), out::toString);
    assertTrue(out.toString().contains("NCCL4J_TIMOUT"), out::toString);
  }
}
