package org.nccl4j.device.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.os.IoErrorText;

/** The headers for kernels of users' own, as they are in this jar. */
public final class DeviceHeaders {
  private static final List<String> NAMES = List.of("nccl4j_device.cuh", "nccl4j_reduction.cuh");

  private DeviceHeaders() {}

  /**
   * Writes the headers into a directory, made if need be; older ones there are replaced.
   *
   * @return the files
   * @throws SystemErrorException if they cannot be written
   */
  public static List<Path> unpack(Path directory) {
    List<Path> files = new ArrayList<>();
    try {
      Files.createDirectories(directory);
      for (String name : NAMES) {
        Path file = directory.resolve(name);
        try (InputStream in = DeviceHeaders.class.getResourceAsStream("include/" + name)) {
          if (in == null) {
            throw new InternalErrorException(
                "the header %s is missing from the jar".formatted(name), "build nccl-device again");
          }
          Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
        }
        files.add(file);
      }
      return files;
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.UNWRITABLE,
          "the headers cannot be written to %s (%s)".formatted(directory, IoErrorText.of(e)),
          "name a directory that this user may write to",
          e);
    }
  }
}
