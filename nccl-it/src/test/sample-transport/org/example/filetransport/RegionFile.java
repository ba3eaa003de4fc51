package org.example.filetransport;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;

/** A file, and its mapping in this process, which ends once nothing refers to it. */
record RegionFile(Path path, ByteBuffer region) {
  /** The suffix of a data side's file. */
  static final String DATA = ".data";

  /** The suffix of a credit side's file. */
  static final String CREDIT = ".credit";

  private static final String PREFIX = "filetransport-";

  /** A new file of zeros. */
  static RegionFile create(Path directory, String kind, long bytes) {
    try {
      Path path = Files.createTempFile(directory, PREFIX, kind);
      return new RegionFile(path, map(path, bytes)); // which makes it as long
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
      RegionFile file = new RegionFile(path, map(path, bytes));
      Files.deleteIfExists(path);
      return file;
    } catch (InvalidPathException | IOException e) {
      throw new SystemErrorException(
          "the file " + name + " cannot be mapped and deleted: " + e,
          "make its directory writable",
          e);
    }
  }

  private static ByteBuffer map(Path path, long bytes) throws IOException {
    try (FileChannel file =
        FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      return file.map(FileChannel.MapMode.READ_WRITE, 0, bytes);
    }
  }

  byte[] handle() {
    return path.getFileName().toString().getBytes(StandardCharsets.UTF_8);
  }

  void close() {
    try {
      Files.deleteIfExists(path);
    } catch (IOException e) {
      System.getLogger("filetransport").log(System.Logger.Level.WARNING, path.toString(), e);
    }
  }
}
