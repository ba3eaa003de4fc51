package org.nccl4j.api.init.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;

class KeptCopyWaysTest {
  private static final List<String> LINES = List.of("slots 2048:jvm", "kept 8192:library");

  @TempDir Path folder;

  private KeptCopyWays store(Path in, String kernel) {
    return new KeptCopyWays(
        new ProbeCache(Optional.of(in)),
        new ProbeKey("a processor", 2, kernel),
        new InfoLog(Settings.ofProcess(Map.of()), "rank 0"));
  }

  private Path file(Path in) throws IOException {
    try (Stream<Path> files = Files.list(in)) {
      List<Path> all = files.toList();
      assertEquals(1, all.size(), all.toString());
      return all.get(0);
    }
  }

  @Test
  void anotherProcessOfTheMachineFindsTheWays() throws IOException {
    Path in = folder.resolve("none").resolve("yet");
    assertEquals(List.of(), store(in, "6.1").find());
    store(in, "6.1").keep(LINES);
    assertEquals(LINES, store(in, "6.1").find());
    assertEquals(List.of(), store(in, "6.2").find());
    store(in, "6.1").keep(LINES.subList(0, 1));
    assertEquals(LINES.subList(0, 1), store(in, "6.1").find());
    assertTrue(file(in).toString().endsWith(".copies"));
  }

  @Test
  void aFileThatIsDamagedIsAsNoneAndIsReplaced() throws IOException {
    store(folder, "6.1").keep(LINES);
    Path file = file(folder);
    for (String text : new String[] {"", "# probe 2 of another", "\0\1\2"}) {
      Files.writeString(file, text);
      assertEquals(List.of(), store(folder, "6.1").find());
    }
    store(folder, "6.1").keep(LINES);
    assertEquals(LINES, store(folder, "6.1").find());
  }

  /** As a folder that cannot be read or written, for root too: there is a file in its place. */
  @Test
  void aFolderThatCannotBeUsedDoesNoHarm() throws IOException {
    Path in = folder.resolve("file");
    Files.writeString(in, "text");
    store(in, "6.1").keep(LINES);
    assertEquals(List.of(), store(in, "6.1").find());
    assertEquals("text", Files.readString(in));
    KeptCopyWays none =
        new KeptCopyWays(
            new ProbeCache(Optional.empty()),
            new ProbeKey("a processor", 2, ""),
            new InfoLog(Settings.ofProcess(Map.of()), "rank 0"));
    none.keep(LINES);
    assertEquals(List.of(), none.find());
  }

  /** A reader finds one of the written files as a whole, whatever process wrote it. */
  @Test
  void processesThatWriteAtOnceReplaceTheFileAsAWhole() throws Exception {
    List<Thread> writers = new ArrayList<>();
    for (int writer = 0; writer < 4; writer++) {
      List<String> lines = IntStream.range(0, 1 + 50 * writer).mapToObj(l -> "line").toList();
      writers.add(
          new Thread(
              () -> {
                for (int write = 0; write < 50; write++) {
                  store(folder, "6.1").keep(lines);
                }
              }));
    }
    store(folder, "6.1").keep(List.of("line"));
    writers.forEach(Thread::start);
    for (int read = 0; read < 200; read++) {
      assertEquals(1, store(folder, "6.1").find().size() % 50);
    }
    for (Thread writer : writers) {
      writer.join();
    }
    file(folder);
  }

  @Test
  void theCLibraryIsToldApartByItsFile() throws IOException {
    Path library = folder.resolve("libc.so.6");
    Path maps = folder.resolve("maps");
    Files.writeString(library, "code");
    Files.writeString(
        maps,
        "7f00-7f01 r--p 0 fe:00 1  /usr/lib/libjvm.so\n7f10-7f11 r--p 0 fe:00 2  "
            + library
            + "\n");
    String first = KeptCopyWays.library(maps);
    assertTrue(first.endsWith(" 4"), first);
    Files.writeString(library, "longer code");
    assertNotEquals(first, KeptCopyWays.library(maps));
    Files.delete(library);
    assertEquals("unknown", KeptCopyWays.library(maps));
    assertEquals("unknown", KeptCopyWays.library(folder.resolve("nowhere")));
  }
}
