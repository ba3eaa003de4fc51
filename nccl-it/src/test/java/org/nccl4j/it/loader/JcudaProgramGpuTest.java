package org.nccl4j.it.loader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** {@link JcudaProgram} on GPUs, in processes of its own: JCuda's library has one class loader. */
@Tag("gpu")
@Timeout(600)
class JcudaProgramGpuTest {
  @Test
  void ofTheSystemsLoader() throws Exception {
    assertRight(JcudaProgram.class);
  }

  @Test
  void ofAChildFirstLoader() throws Exception {
    String output = assertRight(ChildFirstMain.class, JcudaProgram.class.getName());
    assertTrue(output.contains("loaded by " + ChildFirstLoader.class.getName()), output);
  }

  private static String assertRight(Class<?> program, String... arguments) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), program.getName()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("NCCL_MULTI_RANK_GPU_ENABLE", "1"); // the machine may have one GPU
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    assertTrue(output.endsWith("right: 2097152 of 2097152\n"), output);
    return output;
  }
}
