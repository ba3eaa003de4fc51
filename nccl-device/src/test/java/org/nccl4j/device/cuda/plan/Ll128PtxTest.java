package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.NativeBuild;

/**
 * The PTX of the kernels of LL128: a warp is synchronized before it stores lines and before it
 * loads them. Eight threads move a line, and the last of them moves the flag. The flag promises the
 * data of the other seven only if all eight are in one instruction. Threads take different branches
 * while they load the user's elements, and no rule of the language or of PTX has them come together
 * again by themselves. Skipped where nvcc is missing.
 */
class Ll128PtxTest {
  @TempDir private Path folder;

  /** Instructions that matter, in the order of the text. */
  private enum Kind {
    SYNC("bar\\.warp\\.sync"),
    VOTE("vote\\.sync"),
    BARRIER("(bar|barrier)\\.sync"),
    LOAD_PACK("ld\\.volatile\\.global\\.v2\\.u64"),
    STORE_PACK("st\\.volatile\\.global\\.v2\\.u64"),
    LOAD("ld\\.volatile(\\.global)?\\.[us]\\d+"),
    STORE("st(\\.volatile)?(\\.global)?\\.[usb]\\d+");

    private final String instruction;

    Kind(String instruction) {
      this.instruction = instruction;
    }
  }

  private static final Pattern ANY =
      Pattern.compile(
          "\\.entry (?<entry>\\w+)\\(|"
              + String.join(
                  "|",
                  Stream.of(Kind.values())
                      .map(kind -> "(?<" + kind.name().replace("_", "") + ">\\b" + kind.instruction)
                      .map(group -> group + "\\b)")
                      .toList()));

  private Map<String, List<Kind>> kernels(String... defines) throws Exception {
    Path ptx = folder.resolve("family.ptx");
    NativeBuild.schedules(folder);
    List<String> options = new ArrayList<>(List.of(defines));
    options.addAll(List.of("-I", NativeBuild.source("src/main/cuda").toString()));
    options.addAll(List.of("-I", folder.toString()));
    options.addAll(List.of("-std=c++17", "-O3", "-ptx", "-arch=compute_90", "-o", ptx.toString()));
    options.add(NativeBuild.source("src/main/cuda/family.cu").toString());
    NativeBuild.nvcc(options.toArray(String[]::new));
    Map<String, List<Kind>> kernels = new LinkedHashMap<>();
    List<Kind> current = new ArrayList<>();
    Matcher found = ANY.matcher(Files.readString(ptx));
    while (found.find()) {
      if (found.group("entry") != null) {
        current = new ArrayList<>();
        kernels.put(found.group("entry"), current);
      } else {
        current.add(kind(found));
      }
    }
    return kernels;
  }

  private static Kind kind(Matcher found) {
    return Stream.of(Kind.values())
        .filter(kind -> found.group(kind.name().replace("_", "")) != null)
        .findFirst()
        .orElseThrow();
  }

  /** What comes after the first barrier, without repetitions: before it, steps are loaded. */
  private static List<Kind> ofData(List<Kind> all) {
    List<Kind> rest = new ArrayList<>();
    for (Kind kind : all.subList(all.indexOf(Kind.BARRIER), all.size())) {
      if (rest.isEmpty() || rest.get(rest.size() - 1) != kind) {
        rest.add(kind);
      }
    }
    return rest;
  }

  /** Lines are stored behind a synchronization, and loaded behind one or in a loop that votes. */
  private static void check(String kernel, List<Kind> all) {
    List<Kind> kinds = ofData(all);
    for (int i = 1; i < kinds.size(); i++) {
      Kind before = kinds.get(i - 1);
      String where = kernel + ", instruction " + i + " of " + kinds;
      switch (kinds.get(i)) {
        case STORE_PACK -> assertEquals(Kind.SYNC, before, where);
        case LOAD_PACK -> assertTrue(before == Kind.SYNC || before == Kind.VOTE, where);
        default -> {}
      }
    }
    assertTrue(kinds.contains(Kind.STORE_PACK) && kinds.contains(Kind.LOAD_PACK), kernel);
  }

  @Test
  void warpsMeetBeforeTheyMoveLines() throws Exception {
    Map<String, List<Kind>> reducing = kernels("-DFAMILY_TYPE=float");
    for (String algorithm : List.of("ring", "tree", "one_shot", "two_shot")) {
      String kernel = "nccl4j_ll128_" + algorithm;
      check(kernel, reducing.get(kernel));
    }
  }

  /**
   * In sends and receives, packs of the user's are moved by the same instructions as lines: loads
   * of those follow a load of the flag's thread, and stores a store of it.
   */
  @Test
  void warpsMeetBeforeTheyCopyLines() throws Exception {
    Map<String, List<Kind>> copying = kernels("-DFAMILY_TYPE=uint8_t", "-DFAMILY_COPY");
    for (String algorithm : List.of("ring", "one_shot")) {
      String kernel = "nccl4j_ll128_" + algorithm;
      check(kernel, copying.get(kernel));
    }
    List<Kind> kinds = ofData(copying.get("nccl4j_p2p_flagged"));
    for (int i = 1; i < kinds.size(); i++) {
      if (kinds.get(i) == Kind.STORE_PACK) {
        Kind before = kinds.get(i - 1);
        assertTrue(before == Kind.SYNC || before == Kind.STORE, i + " of " + kinds);
      }
    }
    // Whole groups and the last, at either end.
    assertEquals(4, kinds.stream().filter(Kind.SYNC::equals).count(), kinds.toString());
  }
}
