package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Collectives run without nccl-transport-nvls; rank 0 warns once if the settings ask for NVLS. */
@Timeout(600)
class WithoutNvlsTest {
  private static final String REASON = "nccl-transport-nvls is not on the class path";

  private final ClassPathProcess process = ClassPathProcess.usual().without("nccl-transport-nvls");

  private static List<String> reasons(String output) {
    return output.lines().filter(line -> line.contains(REASON)).toList();
  }

  @Test
  void collectivesRunWithoutAWord() throws Exception {
    String output = process.allReduce(Map.of());
    assertEquals(List.of(), reasons(output), output);
  }

  @Test
  void askingForItWarnsOnce() throws Exception {
    String output = process.allReduce(Map.of("NCCL_ALGO", "NVLS,Ring"));
    assertEquals(1, reasons(output).size(), output);
    assertTrue(reasons(output).get(0).contains("is without NVLS"), output);
  }
}
