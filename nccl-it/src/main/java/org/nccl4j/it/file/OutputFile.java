package org.nccl4j.it.file;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.os.WholeFile;

/** Files that an option or a setting names for what a command writes. */
public final class OutputFile {
  /** As many as the kernel follows. */
  private static final int MOST_LINKS = 40;

  private OutputFile() {}

  /**
   * Opens a file for writing, and leaves it as it was. For commands that take minutes before they
   * write.
   *
   * @throws IOException if it cannot be written
   */
  public static void requireWritable(Path file) throws IOException {
    boolean isThere = Files.exists(file);
    if (isThere && !Files.isRegularFile(file) && !Files.isDirectory(file)) {
      if (!Files.isWritable(file)) {
        throw new AccessDeniedException(file.toString());
      }
      return; // a pipe's reader would see its end
    }
    Files.newOutputStream(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND).close();
    if (!isThere) {
      Files.delete(file.toRealPath()); // a link stays one
    }
  }

  /**
   * Writes a text.
   *
   * @param option that names the file
   * @throws InvalidArgumentException naming the option and the file if it cannot be written
   */
  public static void write(String option, Path file, String text) {
    try {
      Files.writeString(file, text);
    } catch (IOException e) {
      throw unwritable(option, file, e);
    }
  }

  /**
   * Writes lines whole or not at all: a full disk or the end of the process leaves the file as it
   * was, and readers see the old lines or the new ones. A pipe, a mounted file, or a file in a
   * folder that is not writable is written in place.
   *
   * @throws IOException if it cannot be written
   */
  public static void replace(Path file, List<String> lines) throws IOException {
    boolean isThere = Files.exists(file);
    Path target = target(file); // a link stays one
    if (isThere && !Files.isRegularFile(target) || !Files.isWritable(target.getParent())) {
      Files.write(file, lines);
      return;
    }
    byte[] text = lines.stream().collect(Collectors.joining("\n", "", "\n")).getBytes(UTF_8);
    Path whole = WholeFile.beside(target, text);
    try {
      move(whole, target, lines);
    } finally {
      Files.deleteIfExists(whole);
    }
  }

  /** The file that links lead to; it may be missing. */
  private static Path target(Path file) throws IOException {
    Path target = file.toAbsolutePath();
    for (int links = 0; links < MOST_LINKS && Files.isSymbolicLink(target); links++) {
      target = target.resolveSibling(Files.readSymbolicLink(target));
    }
    return target;
  }

  private static void move(Path whole, Path target, List<String> lines) throws IOException {
    try {
      Files.move(whole, target, StandardCopyOption.ATOMIC_MOVE);
    } catch (FileSystemException e) {
      Files.write(target, lines); // a mounted file cannot be replaced
    }
  }

  /** The error of a file that cannot be written. */
  public static InvalidArgumentException unwritable(String option, Path file, IOException e) {
    return new InvalidArgumentException(
        ErrorId.FILE,
        "%s %s cannot be written (%s)".formatted(option, file, IoErrorText.of(e)),
        "name a file in an existing folder that you may write to",
        e);
  }
}
