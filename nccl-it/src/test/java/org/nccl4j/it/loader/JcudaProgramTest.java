package org.nccl4j.it.loader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.nvls.FakeGpuProcess;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** {@link JcudaProgram} on the fake driver, whose kernels add nothing: both ranks launch. */
@Timeout(600)
class JcudaProgramTest {
  @TempDir static Path folder;

  @Test
  void ofTheSystemsLoader() throws Exception {
    assertLaunched(
        FakeGpuProcess.in(folder).run(Map.of(), JcudaProgram.class),
        ClassLoader.getSystemClassLoader().getClass().getName());
  }

  @Test
  void ofAChildFirstLoader() throws Exception {
    assertLaunched(
        FakeGpuProcess.in(folder).run(Map.of(), ChildFirstMain.class, JcudaProgram.class.getName()),
        ChildFirstLoader.class.getName());
  }

  private static void assertLaunched(Ran ran, String loader) {
    assertTrue(ran.output().contains("loaded by " + loader + "\n"), ran.output());
    long launches = ran.calls().stream().filter(call -> call.startsWith("cuLaunchKernel")).count();
    assertEquals(2, launches, ran.calls().toString());
  }
}
