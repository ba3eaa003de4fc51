package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The PTX that the build made, and assembled for 9.0 and 10.0: which multimem instructions are in
 * the kernel that uses the switch, and that the emulation has none. Skipped where nvcc is missing.
 */
class NvlsPtxTest {
  private static final Pattern INSTRUCTION = Pattern.compile("multimem\\.[a-z_.:0-9]+");
  private static final String LOAD = "multimem.ld_reduce.relaxed.sys.global.";

  private static final String STORE_WORD = "multimem.st.relaxed.sys.global.u64";
  private static final String STORE = "multimem.st.relaxed.sys.global.v4.f32";
  private static final Set<String> WORDS =
      Set.of("multimem.ld_reduce.acquire.sys.global.min.u64", STORE_WORD);

  private static final List<String> EMULATED =
      List.of("nccl4j_nvls_emulated", "nccl4j_nvls_window_emulated", "nccl4j_nvls_ll_emulated");

  private static String resource(String name) throws IOException {
    return new String(built(name), StandardCharsets.US_ASCII);
  }

  /** A file that the build made of the kernels; the jar has not all of them. */
  private static byte[] built(String name) throws IOException {
    Path file = Path.of("target/kernels/META-INF/nccl4j/kernels", name);
    assumeTrue(Files.exists(file), "the build made no " + name);
    return Files.readAllBytes(file);
  }

  /** From a kernel's entry to the next, or to the end. */
  private static String body(String ptx, String kernel) {
    int begin = ptx.indexOf(".entry " + kernel + "(");
    assertTrue(begin >= 0, kernel);
    int end = ptx.indexOf(".entry ", begin + 1);
    return ptx.substring(begin, end < 0 ? ptx.length() : end);
  }

  private static Set<String> instructions(String ptx, String kernel) {
    Matcher matcher = INSTRUCTION.matcher(body(ptx, kernel));
    Set<String> found = new TreeSet<>();
    while (matcher.find()) {
      found.add(matcher.group());
    }
    return found;
  }

  @ParameterizedTest
  @CsvSource({
    "float, add.v4.f32",
    "double, add.f64",
    "half, add.acc::f32.v4.f16x2 min.v4.f16x2 max.v4.f16x2",
    "bfloat16, add.acc::f32.v4.bf16x2 min.v4.bf16x2 max.v4.bf16x2",
    "f8e4m3, add.acc::f16.v4.e4m3x4 min.v4.e4m3x4 max.v4.e4m3x4",
    "f8e5m2, add.acc::f16.v4.e5m2x4 min.v4.e5m2x4 max.v4.e5m2x4",
    "int32, add.u32 min.s32 max.s32",
    "uint32, add.u32 min.u32 max.u32",
    "int64, add.u64 min.s64 max.s64",
    "uint64, add.u64 min.u64 max.u64",
  })
  void reductionsAreTheTypes(String family, String loads) throws IOException {
    Set<String> wanted = new TreeSet<>(WORDS);
    wanted.add(STORE);
    for (String load : loads.split(" ")) {
      wanted.add(LOAD + load);
    }
    String ptx = resource("nvls_" + family + ".ptx");
    assertEquals(wanted, instructions(ptx, "nccl4j_nvls_driver"));
    String tree = resource("nvls-tree_" + family + ".ptx");
    assertEquals(wanted, instructions(tree, "nccl4j_nvls_tree_driver"));
    assertEquals(Set.of(), instructions(tree, "nccl4j_nvls_tree_emulated"));
    wanted.removeAll(WORDS);
    assertEquals(wanted, instructions(ptx, "nccl4j_nvls_window_driver"));
    assertEquals(Set.of(STORE_WORD), instructions(ptx, "nccl4j_nvls_ll_driver"));
    for (String kernel : EMULATED) {
      assertEquals(Set.of(), instructions(ptx, kernel), kernel);
    }
  }

  /** A broadcast stores everywhere at once, and waits for the least of all words. */
  @Test
  void gathersStore() throws IOException {
    String ptx = resource("nvls_copy.ptx");
    Set<String> wanted = new TreeSet<>(WORDS);
    wanted.add(STORE);
    assertEquals(wanted, instructions(ptx, "nccl4j_nvls_driver"));
    assertEquals(Set.of(STORE), instructions(ptx, "nccl4j_nvls_window_driver"));
    assertEquals(Set.of(STORE_WORD), instructions(ptx, "nccl4j_nvls_ll_driver"));
    for (String kernel : EMULATED) {
      assertEquals(Set.of(), instructions(ptx, kernel), kernel);
    }
  }

  /** Both addresses of the same memory are used, which only this fence orders. */
  @Test
  void aliasesAreFenced() throws IOException {
    String ptx = resource("nvls_float.ptx");
    for (String kernel : EMULATED) {
      assertFalse(body(ptx, kernel).contains("fence.proxy.alias"), kernel);
      String driver = kernel.replace("emulated", "driver");
      assertTrue(body(ptx, driver).contains("fence.proxy.alias"), driver);
    }
    String tree = resource("nvls-tree_float.ptx");
    assertTrue(body(tree, "nccl4j_nvls_tree_driver").contains("fence.proxy.alias"));
    assertFalse(body(tree, "nccl4j_nvls_tree_emulated").contains("fence.proxy.alias"));
  }

  /** Machine code for Hopper and for Blackwell, as the headers in the fatbin say. */
  @ParameterizedTest
  @ValueSource(strings = {"nvls_float", "nvls-tree_float"})
  void hopperAndBlackwellAreBuilt(String family) throws IOException {
    assertTrue(architectures(family).containsAll(Set.of(90, 100)), family);
  }

  @ParameterizedTest
  @ValueSource(strings = {"nvls_f8e4m3", "nvls-tree_f8e5m2"})
  void floatsOf8BitsAreBuiltForBlackwellAlone(String family) throws IOException {
    assertEquals(Set.of(100), architectures(family));
  }

  private static Set<Integer> architectures(String family) throws IOException {
    Set<Integer> architectures = new TreeSet<>();
    ByteBuffer fatbin = ByteBuffer.wrap(built(family + ".fatbin")).order(ByteOrder.LITTLE_ENDIAN);
    assertEquals(0xba55ed50, fatbin.getInt(0));
    int entry = fatbin.getShort(6);
    while (entry < fatbin.capacity()) {
      if (fatbin.getShort(entry) == 2) { // machine code
        architectures.add(fatbin.getInt(entry + 28));
      }
      entry += fatbin.getInt(entry + 4) + Math.toIntExact(fatbin.getLong(entry + 8));
    }
    return architectures;
  }
}
