package org.nccl4j.it.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LibncclExaminationsTest {
  @TempDir private Path folder;
  private Path ours;
  private Path theirs;

  @BeforeEach
  void twoLibraries() throws IOException {
    ours = library("ours", "\0NCCL4J_CLASS_PATH\0");
    theirs = library("theirs", "\0NCCL version\0");
  }

  private Path library(String name, String text) throws IOException {
    Path file = Files.createDirectory(folder.resolve(name)).resolve("libnccl.so.2");
    return Files.writeString(file, text).toRealPath();
  }

  private String seen(String... variables) {
    return LibncclExaminations.look(
            variables.length == 2
                ? Map.of(variables[0], variables[1])
                : Map.of(variables[0], variables[1], variables[2], variables[3]),
            cached("x86-64", theirs))
        .detail();
  }

  private static String cached(String architecture, Path library) {
    return "2 libs found in cache `/etc/ld.so.cache'\n"
        + "\tlibnccl.so (libc6,%s) => /lib/libnccl.so\n".formatted(architecture)
        + "\tlibnccl.so.2 (libc6) => /lib/for-32-bits/libnccl.so.2\n"
        + "\tlibnccl.so.2 (libc6,%s) => %s\n".formatted(architecture, library);
  }

  /** Packages put it into folders of their own, which ldconfig knows. */
  @ParameterizedTest
  @ValueSource(strings = {"x86-64", "AArch64", "x86-64, OS ABI: Linux 3.10.0"})
  void theLoadersCacheTellsWhatIsInstalled(String architecture) {
    assertEquals(
        "a program without its own copy loads %s (by ld.so.cache): nccl4j's".formatted(ours),
        LibncclExaminations.look(Map.of(), cached(architecture, ours)).detail());
  }

  /** In the locale C, letters other than ASCII's make no file name of Java. */
  @Test
  void aFolderThatIsNoFileNameIsLeftOut() {
    String folders = "/a\0b:" + ours.getParent();
    assertEquals(
        "a program without its own copy loads %s (by LD_LIBRARY_PATH): nccl4j's".formatted(ours),
        seen("LD_LIBRARY_PATH", folders));
  }

  @Test
  void aPreloadedLibraryIsBeforeAllOthers() {
    assertEquals(
        "every program loads %s (by LD_PRELOAD): nccl4j's".formatted(ours),
        seen(
            "LD_PRELOAD",
            "/lib/other.so:" + ours,
            "LD_LIBRARY_PATH",
            theirs.getParent().toString()));
  }

  @Test
  void theFirstFolderOfThePathCounts() {
    String path = folder + ":" + theirs.getParent() + ":" + ours.getParent();
    assertEquals(
        "a program without its own copy loads %s (by LD_LIBRARY_PATH): NCCL's;".formatted(theirs)
            + " ./nccl with COMMAND runs it with nccl4j's",
        seen("LD_LIBRARY_PATH", path));
  }

  @Test
  void aLibraryThatIsNotThereIsNamed() {
    String missing = folder.resolve("libnccl.so.2").toString();
    Finding finding = LibncclExaminations.look(Map.of("LD_PRELOAD", missing), "");
    assertEquals(Finding.Status.WARN, finding.status());
    assertTrue(finding.detail().contains(missing), finding::detail);
  }
}
