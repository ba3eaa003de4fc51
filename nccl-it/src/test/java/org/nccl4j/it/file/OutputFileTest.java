package org.nccl4j.it.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files are replaced whole. */
class OutputFileTest {
  private static final List<String> NEW = List.of("new", "lines");

  @TempDir Path folder;

  private List<String> files() throws IOException {
    try (Stream<Path> all = Files.list(folder)) {
      return all.map(file -> file.getFileName().toString()).sorted().toList();
    }
  }

  @Test
  void aReaderSeesTheOldLinesOrTheNewOnes() throws IOException {
    Path file = folder.resolve("table");
    OutputFile.replace(file, List.of("old"));
    try (InputStream reader = Files.newInputStream(file)) {
      OutputFile.replace(file, NEW);
      assertEquals("old\n", new String(reader.readAllBytes(), StandardCharsets.UTF_8));
    }
    assertEquals(NEW, Files.readAllLines(file));
    assertEquals(List.of("table"), files());
  }

  @Test
  void aLinkStaysOne() throws IOException {
    Path file = folder.resolve("table");
    Path link = Files.createSymbolicLink(folder.resolve("link"), Path.of("table"));
    OutputFile.replace(file, List.of("old"));
    OutputFile.replace(link, NEW);
    assertEquals(NEW, Files.readAllLines(file));
    assertTrue(Files.isSymbolicLink(link));
    assertEquals(List.of("link", "table"), files());
  }

  /** One that leads to a file that is not there yet. */
  @Test
  void aLinkToAMissingFileStaysOne() throws IOException {
    Path link = Files.createSymbolicLink(folder.resolve("link"), Path.of("table"));
    OutputFile.requireWritable(link);
    assertEquals(List.of("link"), files());
    OutputFile.replace(link, NEW);
    assertTrue(Files.isSymbolicLink(link));
    assertEquals(NEW, Files.readAllLines(folder.resolve("table")));
  }

  /** To open a pipe waits for its reader, and to close it again shows the reader the end. */
  @Test
  void aPipeIsNotOpenedAhead() throws Exception {
    Path pipe = pipe();
    FutureTask<Void> check =
        new FutureTask<>(
            () -> {
              OutputFile.requireWritable(pipe);
              return null;
            });
    Thread thread = new Thread(check);
    thread.setDaemon(true);
    thread.start();
    check.get(5, TimeUnit.MINUTES);
  }

  private Path pipe() throws Exception {
    Path pipe = folder.resolve("pipe");
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    return pipe;
  }

  @Test
  void aPipeIsWrittenInPlace() throws Exception {
    Path pipe = pipe();
    FutureTask<List<String>> reader = new FutureTask<>(() -> Files.readAllLines(pipe));
    Thread thread = new Thread(reader);
    thread.setDaemon(true);
    thread.start();
    OutputFile.replace(pipe, NEW);
    assertEquals(NEW, reader.get(5, TimeUnit.MINUTES));
  }
}
