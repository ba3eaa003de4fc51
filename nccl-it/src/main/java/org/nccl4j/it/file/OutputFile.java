package org.nccl4j.it.file;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Checks output files before a command begins, which may take minutes. */
public final class OutputFile {
  private OutputFile() {}

  /**
   * Opens a file for writing, and leaves it as it was.
   *
   * @throws IOException if it cannot be written
   */
  public static void requireWritable(Path file) throws IOException {
    boolean isThere = Files.exists(file);
    Files.newOutputStream(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND).close();
    if (!isThere) {
      Files.delete(file);
    }
  }
}
