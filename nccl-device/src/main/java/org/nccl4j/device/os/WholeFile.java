package org.nccl4j.device.os;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/**
 * Files that appear with all their bytes: written under another name in their folder, and then
 * renamed. The other name is random and of a new file. So a user who may write to the folder, such
 * as /tmp, cannot put a link there that leads this process to a file of its own user.
 */
public final class WholeFile {
  private static final String NEW = ".new";

  private WholeFile() {}

  /**
   * Writes a file; an older one of the name is replaced, and so is a symbolic link.
   *
   * @throws IOException if it cannot be written; the older one is as it was
   */
  public static void write(Path file, byte[] bytes) throws IOException {
    Path whole = beside(file, bytes);
    try {
      Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(whole);
    }
  }

  /**
   * Writes a new file in the folder of another, for a rename.
   *
   * @return its name
   * @throws IOException if it cannot be written; nothing is left of it
   */
  public static Path beside(Path file, byte[] bytes) throws IOException {
    String name = file.getFileName() + "." + Long.toHexString(KernelRandom.number()) + NEW;
    Path whole = file.resolveSibling(name);
    try {
      Files.write(whole, bytes, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
      return whole;
    } catch (IOException e) {
      Files.deleteIfExists(whole);
      throw e;
    }
  }
}
