package org.nccl4j.api.settings;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;

/**
 * Files that settings name. Reads are bounded, so that a wrong name, such as a device's, neither
 * takes all memory nor waits for ever.
 */
public final class SettingFile {
  private static final int MOST_BYTES = 16 << 20;
  private static final Path NOTHING = Path.of("/dev/null");

  private SettingFile() {}

  /**
   * The path that a setting names.
   *
   * @throws InvalidArgumentException if the text is no path on this machine, for want of a letter
   *     in the locale's encoding, say
   */
  public static Path path(Setting<?> setting, String text) {
    try {
      return Path.of(text);
    } catch (InvalidPathException e) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "%s=%s names no file (%s)".formatted(setting.name(), text, IoErrorText.of(e)),
          "set LC_ALL=C.UTF-8, or name another file in %s, or unset it".formatted(setting.name()),
          e);
    }
  }

  /**
   * The path that a setting names, of a file that this process can read.
   *
   * @throws InvalidArgumentException naming the setting and why the file cannot be read
   */
  public static Path readable(Setting<?> setting, String text) {
    Path path = path(setting, text);
    try (InputStream in = open(path)) {
      in.read();
      return path;
    } catch (IOException e) {
      throw unreadable(setting, text, e);
    }
  }

  /**
   * Checks that a file that a setting names can be written later; creates none.
   *
   * @param file that the setting's text stands for
   * @throws InvalidArgumentException naming the setting and why the file cannot be written
   */
  public static void requireWritable(Setting<?> setting, String text, Path file) {
    Path folder = file.toAbsolutePath().getParent();
    String why =
        folder == null || Files.isDirectory(file)
            ? file + " is a folder"
            : !Files.exists(folder)
                ? "there is no folder " + folder
                : !Files.isDirectory(folder)
                    ? folder + " is not a folder"
                    : !Files.isWritable(folder) ? "this user may not write to " + folder : "";
    if (!why.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "%s=%s cannot be written (%s)".formatted(setting.name(), text, why),
          "name a file in an existing folder that this process can write to, or unset "
              + setting.name());
    }
  }

  /**
   * The lines of a text file.
   *
   * @throws IOException if it cannot be read, is no regular file, or has more than 16 MiB
   */
  public static List<String> lines(Path file) throws IOException {
    try (InputStream in = open(file)) {
      byte[] bytes = in.readNBytes(MOST_BYTES + 1);
      if (bytes.length > MOST_BYTES) {
        throw new FileSystemException(
            file.toString(), null, "it has more than " + MOST_BYTES + " bytes");
      }
      return new String(bytes, StandardCharsets.UTF_8).lines().toList();
    }
  }

  /** A pipe or a device might never end; {@code /dev/null} does, and is how to name no file. */
  private static InputStream open(Path file) throws IOException {
    if (Files.exists(file) && !Files.isRegularFile(file) && !file.equals(NOTHING)) {
      throw new FileSystemException(file.toString(), null, "it is not a regular file");
    }
    return Files.newInputStream(file);
  }

  private static InvalidArgumentException unreadable(
      Setting<?> setting, String text, Exception cause) {
    return new InvalidArgumentException(
        ErrorId.FILE,
        "%s=%s cannot be read (%s)".formatted(setting.name(), text, IoErrorText.of(cause)),
        "name a file that this process can read in " + setting.name() + ", or unset it",
        cause);
  }
}
