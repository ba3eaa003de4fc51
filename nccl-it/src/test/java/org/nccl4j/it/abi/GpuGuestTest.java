package org.nccl4j.it.abi;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.it.nvls.FakeGpuProcess;

/**
 * Programs in C that end, fork, abort or get signals while operations run on GPUs of the fake
 * driver.
 */
@Timeout(600)
class GpuGuestTest {
  @TempDir private static Path folder;
  private static BuiltLibrary library;
  private static String guest;

  @BeforeAll
  static void build() throws Exception {
    library = BuiltLibrary.in(folder);
    FakeGpuProcess.in(folder);
    guest = library.compile("gpu_guest", "-ldl");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "left",
        "exit-elsewhere",
        "fork-after",
        "abort",
        "abort-while-finalized",
        "killed-KILL",
        "killed-TERM",
        "killed-INT",
        "killed-USR2",
        "handlers"
      })
  void guest(String what) throws Exception {
    library.runShort(
        Map.of("NCCL_MULTI_RANK_GPU_ENABLE", "1", "NCCL_NVLS_ENABLE", "0"), guest, what);
  }
}
