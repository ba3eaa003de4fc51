package org.nccl4j.it.device;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The headers for users' kernels, and the example, compile where there is nvcc and no GPU. */
@Timeout(600)
class OwnKernelTest {
  @ParameterizedTest
  @ValueSource(strings = {"sm_80", "sm_90"})
  void putsToOtherHostsCompile(String architecture, @TempDir Path folder) throws Exception {
    byte[] cubin = OwnKernel.compile("own_puts.cu", folder, architecture);
    String names = new String(cubin, StandardCharsets.ISO_8859_1);
    assertTrue(names.contains("ownPuts"));
    assertTrue(names.contains("ownGets"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"sm_80", "sm_90"})
  void theExampleCompiles(String architecture, @TempDir Path folder) throws Exception {
    byte[] cubin = OwnKernel.compile("own_kernel.cu", folder, architecture);
    String names = new String(cubin, StandardCharsets.ISO_8859_1);
    assertTrue(names.contains("ownAllReduce"));
    assertTrue(names.contains("ownSmallAllReduce"));
    if (architecture.equals("sm_90")) {
      assertTrue(names.contains("ownMultimemAllReduce"));
    } else {
      assertFalse(names.contains("ownMultimemAllReduce"), "multimem is from sm_90 on");
    }
  }
}
