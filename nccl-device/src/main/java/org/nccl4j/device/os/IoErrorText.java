package org.nccl4j.device.os;

import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;

/** Explains in words, not with a class name, why a user's file cannot be read or written. */
public final class IoErrorText {
  private IoErrorText() {}

  /** The words for what reading or writing a file threw. */
  public static String of(Exception e) {
    if (e instanceof NoSuchFileException missing) {
      return missing(Path.of(missing.getFile()).toAbsolutePath());
    }
    if (e instanceof AccessDeniedException denied) {
      return "this user may not use " + denied.getFile();
    }
    if (e instanceof FileAlreadyExistsException there) {
      return there.getFile() + " is there already, and is not a folder";
    }
    if (e instanceof NotDirectoryException file) {
      return file.getFile() + " is not a folder";
    }
    if (e instanceof FileSystemException other && other.getReason() != null) {
      return other.getFile() + ": " + other.getReason();
    }
    if (e instanceof InvalidPathException) {
      return "it is not a file name in this process's locale";
    }
    return e.getMessage() == null ? e.toString() : e.getMessage();
  }

  private static String missing(Path file) {
    Path folder = file.getParent();
    return folder == null || Files.exists(folder)
        ? "there is no " + file
        : "there is no folder " + folder;
  }
}
