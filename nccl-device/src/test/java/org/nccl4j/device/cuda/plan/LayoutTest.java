package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.NativeBuild;
import org.nccl4j.device.cuda.window.DirectLayout;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.SharedConnections;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Compiles a probe of layout.h and compares every offset with Java's. */
public class LayoutTest {
  private static final Map<String, String> EXPRESSIONS = new LinkedHashMap<>();

  static {
    String collective = "nccl4jCollectiveArguments";
    String p2p = "nccl4jP2pArguments";
    put("INLINE_PEERS", "NCCL4J_INLINE_PEERS");
    put("INLINE_GROUPS", "NCCL4J_INLINE_GROUPS");
    put("INLINE_WORKS", "NCCL4J_INLINE_WORKS");
    put("NONE", "NCCL4J_NONE");
    put("RANK_BYTES", "sizeof(((nccl4jCollectiveArguments*)0)->ringIndex[0])");
    put("SIMPLE_THREADS", "NCCL4J_SIMPLE_THREADS");
    put("FLAGGED_THREADS", "NCCL4J_FLAGGED_THREADS");
    put("NVLS_THREADS", "NCCL4J_NVLS_THREADS");
    put("CLAIMING_CHANNELS", "NCCL4J_CLAIMING_CHANNELS");
    put("UNTOLD_STEPS", "NCCL4J_UNTOLD_STEPS");
    put("PEER_STEPS", "offsetof(nccl4jPeer, steps)");
    put("PEER_BYTES", "sizeof(nccl4jPeer)");
    put("STEPS_BYTES", "sizeof(nccl4jSteps)");
    put("STEPS_CARRIED", "offsetof(nccl4jSteps, carried)");
    put("STEPS_COPIES", "offsetof(nccl4jSteps, copies)");
    put("COPIES", "NCCL4J_COPIES");
    fields("nccl4jCopyArguments", "", "send", "recv");
    fields("nccl4jCopyArguments", "COPY_", "word", "counter", "number", "peer", "kind");
    put("COPY_BYTES", "sizeof(nccl4jCopyArguments)");
    fields("nccl4jControl", "CONTROL_", "abort", "failed", "failedPeer", "failedChannel");
    fields("nccl4jControl", "CONTROL_", "failedKind", "failedStep", "waiting");
    put("CONTROL_BYTES", "sizeof(nccl4jControl)");
    fields("nccl4jCommunicator", "", "control", "budget", "rank", "nRanks");
    put("LL_SLOT", "offsetof(nccl4jCommunicator, llSlot)");
    put("LL128_SLOT", "offsetof(nccl4jCommunicator, ll128Slot)");
    put("SIMPLE_SLOT", "offsetof(nccl4jCommunicator, simpleSlot)");
    fields("nccl4jCommunicator", "", "user", "signature", "flags");
    put("ALIKE_SEND", "ALIKE_SEND");
    put("ALIKE_RECV", "ALIKE_RECV");
    put("ADMITS_AT_ONCE", "ADMITS_AT_ONCE");
    put("ADMITS_WHEN_MET", "ADMITS_WHEN_MET");
    put("CALLS", "NCCL4J_CALLS");
    put("MORE_CALLS", "NCCL4J_MORE_CALLS");
    fields(collective, "", "send", "recv", "bytes", "ringRanks", "peerTable", "collective");
    fields(collective, "", "algorithm", "root", "nChannels", "sliceBytes", "firstChannel");
    fields(collective, "", "hostRanks", "peers");
    put("OPERATOR", "offsetof(nccl4jCollectiveArguments, op)");
    fields(collective, "", "ringIndex", "ringPrev", "ringNext", "treeUp", "treeDown");
    put("TREE_CHILDREN", "NCCL4J_TREE_CHILDREN");
    fields(collective, "", "claims", "wholeRounds", "smallSlices");
    fields(collective, "", "scalar", "scalarAddress");
    put("PREMUL", "PREMUL");
    put("COLLECTIVE_BYTES", "sizeof(nccl4jCollectiveArguments)");
    fields(p2p, "", "groups", "works", "nGroups");
    put("INLINE_GROUP_TABLE", "offsetof(nccl4jP2pArguments, inlineGroups)");
    put("INLINE_WORK_TABLE", "offsetof(nccl4jP2pArguments, inlineWorks)");
    put("EXPOSED", "offsetof(nccl4jP2pArguments, exposed)");
    put("EXPOSED_WORKS", "NCCL4J_EXPOSED_WORKS");
    put("P2P_BYTES", "sizeof(nccl4jP2pArguments)");
    fields("nccl4jGroup", "GROUP_", "data", "credit", "steps", "peer", "kind", "firstBlock");
    fields("nccl4jGroup", "GROUP_", "blockStep", "nBlocks", "firstWork", "nWorks");
    put("GROUP_BYTES", "sizeof(nccl4jGroup)");
    fields("nccl4jWork", "WORK_", "address", "target", "bytes", "base", "targetBase");
    fields("nccl4jWork", "WORK_", "protocol", "parts", "offered", "signature");
    put("NO_OFFER", "NCCL4J_NO_OFFER");
    put("WORK_SIZE", "sizeof(nccl4jWork)");
    put("NVLS_HEADS", "NCCL4J_NVLS_HEADS");
    put("NVLS_STEPS_BYTES", "sizeof(nccl4jNvlsSteps)");
    fields("nccl4jNvlsArguments", "NVLS_", "bytes", "steps", "unicast", "collective", "op");
    fields("nccl4jNvlsArguments", "NVLS_", "nChannels", "chunkBytes", "slotBytes");
    fields("nccl4jNvlsArguments", "NVLS_", "layoutChannels", "nHeads", "headRank", "views");
    fields("nccl4jNvlsArguments", "NVLS_", "headRanks");
    put("NVLS_ARGUMENTS_BYTES", "sizeof(nccl4jNvlsArguments)");
  }

  @Test
  void theTableOfAlgorithmsIsJavas() throws Exception {
    String row = "printf(\"%s %s %d\\n\", #NUMBER, #KERNEL, NUMBER);";
    String header = "algorithms.h";
    String body =
        "\n#define ROW(NUMBER, KERNEL, FUNCTION, PEERS, FAMILIES) %s\nNCCL4J_ALGORITHMS(ROW)\n"
            .formatted(row);
    List<Algorithm> inKernels =
        Operation.collectives().stream()
            .flatMap(operation -> Algorithm.overConnections(operation, /* all= */ true).stream())
            .flatMap(algorithm -> Stream.of(algorithm, Algorithm.PAT, Algorithm.HIERARCHICAL))
            .distinct()
            .sorted()
            .toList();
    List<String> expected =
        inKernels.stream()
            .map(a -> "%s %s %d".formatted(a, a.name().toLowerCase(Locale.ROOT), a.ordinal()))
            .toList();
    assertEquals(expected, run(header, body).lines().toList());
  }

  @Test
  void theTableOfTypesIsJavas() throws Exception {
    String body =
        "\n#define ROW(FAMILY, ELEMENT, ARITHMETIC, SWITCH, PTX) puts(#FAMILY \" \" #SWITCH);"
            + "\nNCCL4J_TYPES(ROW)\n";
    List<String> rows = run("types.h", body).lines().toList();
    assertEquals(
        Stream.of(DataType.values()).map(DataType::label).toList(),
        rows.stream().map(row -> row.split(" ")[0]).toList());
    for (DataType type : DataType.values()) {
      boolean bySwitch = Nvls.has(Operation.ALL_REDUCE, type, RedOp.SUM) || type.isFloat8();
      String row = rows.get(type.ordinal());
      assertEquals(bySwitch, !row.endsWith(" NOTHING"), row);
    }
  }

  private static void put(String constant, String expression) {
    EXPRESSIONS.put(constant, expression);
  }

  private static void fields(String type, String prefix, String... names) {
    for (String name : names) {
      String constant = name.replaceAll("([A-Z])", "_$1").toUpperCase(Locale.ROOT);
      put(prefix + constant, "offsetof(" + type + ", " + name + ")");
    }
  }

  private static String run(String body) throws Exception {
    return run("layout.h", body);
  }

  /**
   * Compares constants of offsets with the fields of a kernel's arguments: SEND_FLAT with that of
   * sendFlat, and SIZE with their size; also the buffers, which lie at one place in all arguments.
   */
  public static void compare(Class<?> constants, String header, String structure) throws Exception {
    StringBuilder body = new StringBuilder();
    StringBuilder expected = new StringBuilder();
    for (String buffer : new String[] {"send", "recv"}) {
      body.append("printf(\"%s %%d\\n\", (int)offsetof(%s, %1$s));\n".formatted(buffer, structure));
    }
    expected.append("send %d\nrecv %d\n".formatted(KernelLayout.SEND, KernelLayout.RECV));
    for (Field constant : constants.getDeclaredFields()) {
      String name = constant.getName();
      StringBuilder field = new StringBuilder();
      for (String word : name.toLowerCase(Locale.ROOT).split("_")) {
        field.append(
            field.isEmpty() ? word : Character.toUpperCase(word.charAt(0)) + word.substring(1));
      }
      String value =
          name.equals("SIZE")
              ? "sizeof(" + structure + ")"
              : "offsetof(" + structure + ", " + field + ")";
      body.append("printf(\"%s %%d\\n\", (int)%s);\n".formatted(name, value));
      constant.setAccessible(true);
      expected.append(name).append(' ').append(constant.getInt(null)).append('\n');
    }
    assertEquals(expected.toString(), run(header, body.toString()));
  }

  /** The output of a program that includes a header of the kernels. */
  public static String run(String name, String body) throws Exception {
    Path directory = Files.createTempDirectory("layout");
    Path source = directory.resolve("probe.c");
    Path header = NativeBuild.source("src/main/cuda/" + name).toAbsolutePath();
    Files.writeString(
        source,
        "#include <stddef.h>\n#include <stdio.h>\n#include \"%s\"\nint main(void) {\n%s}\n"
            .formatted(header, body));
    Path probe = directory.resolve("probe");
    NativeBuild.schedules(directory);
    NativeBuild.gcc("-I", directory.toString(), "-o", probe.toString(), source.toString());
    Process process = new ProcessBuilder(probe.toString()).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor());
    return output;
  }

  @Test
  void everyOffsetIsTheHeaders() throws Exception {
    StringBuilder body = new StringBuilder();
    EXPRESSIONS.forEach(
        (name, value) -> body.append("printf(\"%s %%d\\n\", (int)(%s));\n".formatted(name, value)));
    int seen = 0;
    for (String line : run(body.toString()).split("\n")) {
      String[] parts = line.split(" ");
      Field field = KernelLayout.class.getDeclaredField(parts[0]);
      assertEquals(Integer.parseInt(parts[1]), field.getInt(null), parts[0]);
      seen++;
    }
    assertEquals(KernelLayout.class.getDeclaredFields().length, seen);
  }

  /** Kernels are compiled for so many threads of a block. */
  @ParameterizedTest
  @CsvSource({
    "plan.NvlsPlans, TREE_THREADS, nvls_tree_layout.h, NCCL4J_NVLS_TREE_THREADS",
    "plan.QuantisedPlans, THREADS, quantise_layout.h, NCCL4J_QUANTISE_THREADS",
    "window.DirectPlans, THREADS, direct_layout.h, NCCL4J_DIRECT_THREADS",
    "window.RaggedPlans, THREADS, ragged_layout.h, NCCL4J_RAGGED_THREADS",
    "window.ExpertPlans, THREADS, expert_layout.h, NCCL4J_EXPERT_THREADS",
    "window.ExpertPackPlans, THREADS, expert_pack_layout.h, NCCL4J_EXPERT_PACK_THREADS"
  })
  void threadsOfBlocksAreTheHeaders(String plans, String constant, String header, String expression)
      throws Exception {
    Field threads = Class.forName("org.nccl4j.device.cuda." + plans).getDeclaredField(constant);
    threads.setAccessible(true);
    String found = run(header, "printf(\"%%d\", %s);".formatted(expression));
    assertEquals(threads.get(null).toString(), found);
  }

  @Test
  void argumentsOfQuantisedSumsAreTheHeaders() throws Exception {
    compare(QuantiseArguments.class, "quantise_layout.h", "nccl4jQuantiseArguments");
  }

  @Test
  void argumentsOfReductionsByFunctorsAreTheHeaders() throws Exception {
    compare(
        ReductionArguments.class,
        "../resources/org/nccl4j/device/cuda/include/nccl4j_reduction.cuh",
        "nccl4jReductionArguments");
  }

  @Test
  void enumsAndConnectionsAreTheHeaders() throws Exception {
    StringBuilder body = new StringBuilder();
    for (Enum<?>[] values :
        new Enum<?>[][] {
          Operation.collectives().toArray(Enum<?>[]::new), Protocol.values(), RedOp.values()
        }) {
      for (Enum<?> value : values) {
        body.append("if (%s != %d) puts(\"%s\");\n".formatted(value, value.ordinal(), value));
      }
    }
    body.append(
        "if (NCCL4J_CHANNELS != %d) puts(\"channels\");".formatted(ConnectionLayout.CHANNELS));
    body.append(
        "if (offsetof(nccl4jNvlsArguments, send) != %d) puts(\"send\");"
            .formatted(KernelLayout.SEND));
    body.append(
        "if (NCCL4J_WORD_STRIDE != %d) puts(\"stride\");".formatted(ConnectionLayout.WORD_STRIDE));
    body.append("if (NCCL4J_SLOTS != %d) puts(\"slots\");".formatted(ConnectionLayout.STEPS));
    body.append("if (NCCL4J_SIZES != %d) puts(\"sizes\");".formatted(ConnectionLayout.SIZES));
    body.append("if ((int)NCCL4J_LINES != %d) puts(\"lines\");".formatted(ConnectionLayout.LINES));
    body.append(
        "if ((int)NCCL4J_EXPOSED != %d) puts(\"exposed\");".formatted(ConnectionLayout.EXPOSED));
    body.append(
        "if (NCCL4J_EXPOSED_FROM != %d || NCCL4J_PLACED != %d) puts(\"placed\");"
            .formatted(ConnectionLayout.exposedFrom(0), ConnectionLayout.placed(0)));
    body.append(
        "if (NCCL4J_WANTED != %d || NCCL4J_WANTED_BYTES != %d || NCCL4J_WANTED_AT != %d) puts(\"wanted\");"
            .formatted(
                ConnectionLayout.WANTED, ConnectionLayout.WANTED_STEP, ConnectionLayout.wanted(0)));
    body.append(
        "if (sizeof(nccl4jWanted) != %d || offsetof(nccl4jWanted, step) != 8) puts(\"wanted\");"
            .formatted(ConnectionLayout.wanted(1) - ConnectionLayout.wanted(0)));
    body.append("if (NCCL4J_USER != %d) puts(\"user\");".formatted(SharedConnections.TOLD));
    body.append(
        "if (NCCL4J_HEADER_BYTES != %d) puts(\"header\");"
            .formatted(new ConnectionLayout(16, 128, 128).ll(0)));
    assertEquals("", run(body.toString()));
    ConnectionLayout layout = ConnectionSizes.layout(4);
    long connections = 3 * (layout.dataBytes() + ConnectionLayout.CREDIT_BYTES);
    assertTrue(connections <= 60L << 20, "device memory of a rank among four for connections");
    assertTrue(DirectLayout.of(4).bytes() <= 4L << 20, "and for direct ways, 64 MiB with them");
    for (int ranks = 2; ranks <= 256; ranks++) {
      int part = ConnectionSizes.layout(ranks).ll128SlotBytes() / ConnectionLayout.CHANNELS;
      assertEquals(0, part % 128, "a line of LL128 lies in one line of memory, ranks: " + ranks);
    }
  }
}
