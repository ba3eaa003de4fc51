package org.nccl4j.device.os;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WholeFileTest {
  private static final byte[] BYTES = {1, 2, 3};

  @TempDir Path folder;

  private List<Path> files() throws IOException {
    try (Stream<Path> all = Files.list(folder)) {
      return all.toList();
    }
  }

  @Test
  void aFileIsReplaced() throws IOException {
    Path file = Files.writeString(folder.resolve("file"), "old");
    WholeFile.write(file, BYTES);
    assertEquals(List.of(file), files());
    assertEquals(BYTES.length, Files.size(file));
  }

  /** Another user may have put it into a folder such as /tmp. */
  @Test
  void theTargetOfALinkIsNotWritten() throws IOException {
    Path target = Files.writeString(folder.resolve("target"), "kept");
    Path link = Files.createSymbolicLink(folder.resolve("file"), target);
    WholeFile.write(link, BYTES);
    assertEquals("kept", Files.readString(target));
    assertFalse(Files.isSymbolicLink(link));
  }

  /** So that no link can wait for it. */
  @Test
  void theOtherNameCannotBeForeseen() throws IOException {
    Path file = folder.resolve("file");
    assertNotEquals(WholeFile.beside(file, BYTES), WholeFile.beside(file, BYTES));
  }

  @Test
  void aMissingFolderIsTold() {
    Path file = folder.resolve("none/file");
    assertThrows(NoSuchFileException.class, () -> WholeFile.write(file, BYTES));
  }
}
