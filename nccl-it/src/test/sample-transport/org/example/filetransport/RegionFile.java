package org.example.filetransport;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.MappedRegion;

/** A file, and its mapping in this process. */
record RegionFile(Path path, MappedRegion region) {
  /** The suffix of a data side's file. */
  static final String DATA = ".data";

  /** The suffix of a credit side's file. */
  static final String CREDIT = ".credit";

  private static final String PREFIX = "filetransport-";

  /** A new file of zeros. */
  static RegionFile create(Path directory, String kind, long bytes) {
    try {
      Path path = Files.createTempFile(directory, PREFIX, kind);
      try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
        file.setLength(bytes);
      }
      return new RegionFile(path, MappedRegion.ofFile(path, bytes));
    } catch (IOException e) {
      throw new SystemErrorException(
          "no file of " + bytes + " bytes can be made in " + directory + ": " + e,
          "set NCCL4J_FILE_TRANSPORT_DIR to a directory with room",
          e);
    }
  }

  /** The file that a handle names, deleted now that both ends map it. */
  static RegionFile open(byte[] handle, Path directory, String kind, long bytes) {
    String name = new String(handle, StandardCharsets.UTF_8);
    if (!name.matches(PREFIX + "[0-9]+\\" + kind)) {
      throw new RemoteException(
          "a handle of " + handle.length + " bytes is not the name of a file" + kind,
          "run the same version of the file transport on all ranks");
    }
    try {
      Path path = directory.resolve(name);
      RegionFile file = new RegionFile(path, MappedRegion.ofFile(path, bytes));
      Files.deleteIfExists(path);
      return file;
    } catch (InvalidPathException | IOException e) {
      throw new SystemErrorException(
          "the file " + name + " cannot be deleted: " + e, "make its directory writable", e);
    }
  }

  byte[] handle() {
    return path.getFileName().toString().getBytes(StandardCharsets.UTF_8);
  }

  void close() {
    region.close();
    try {
      Files.deleteIfExists(path);
    } catch (IOException e) {
      System.getLogger("filetransport").log(System.Logger.Level.WARNING, path.toString(), e);
    }
  }
}
