package org.nccl4j.it.file;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class TemporaryFolderTest {
  @Test
  void usersEndBeforeTheFilesGo() throws Exception {
    AtomicBoolean hadFiles = new AtomicBoolean();
    TemporaryFolder folder = TemporaryFolder.create("nccl4j-test");
    Path file = folder.path().resolve("a").resolve("b");
    Files.createDirectories(file.getParent());
    Files.writeString(file, "x");
    folder.endFirst(() -> hadFiles.set(Files.exists(file)));
    folder.close();
    assertTrue(hadFiles.get());
    assertFalse(Files.exists(folder.path()));
  }
}
