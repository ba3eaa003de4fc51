package org.nccl4j.it.perf.peer;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.it.run.Tool;

/**
 * The Open MPI that is installed on this machine.
 *
 * @param version such as "Open MPI 4.1.4"
 * @param program our program, compiled against it
 */
public record OpenMpi(String version, Path program) {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Pattern VERSION = Pattern.compile("\\(Open MPI\\)\\s+(\\S+)");

  /**
   * Finds it, and compiles our program into a folder.
   *
   * @throws SystemErrorException naming the package that is missing
   */
  public static OpenMpi find(Path folder) {
    String said = output("is needed to start it", "openmpi-bin", List.of("mpirun", "--version"));
    Matcher version = VERSION.matcher(said);
    if (!version.find()) {
      throw new SystemErrorException(
          ErrorId.COMPARISON,
          "mpirun is not Open MPI's: it says " + said.lines().findFirst().orElse("nothing"),
          "apt-get install openmpi-bin libopenmpi-dev, and have its mpirun first in PATH");
    }
    Path program = folder.resolve("mpi_peer");
    Path source = folder.resolve("mpi_peer.c");
    try (InputStream text = OpenMpi.class.getResourceAsStream("mpi_peer.c")) {
      Files.copy(text, source, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    output(
        "is needed to compile the program that is measured",
        "libopenmpi-dev gcc",
        List.of("mpicc", "-O3", "-o", program.toString(), source.toString()));
    return new OpenMpi("Open MPI " + version.group(1), program);
  }

  /** True if it has a type. */
  public static boolean has(DataType type) {
    return !type.isFloatingPoint() || type.bytes() >= Float.BYTES;
  }

  private static String output(String purpose, String packages, List<String> command) {
    String tool = command.get(0);
    try {
      Tool.Answer answer = Tool.run(PATIENCE, command);
      if (answer.status() != 0) {
        throw failed(command, answer.text().strip(), packages, null);
      }
      return answer.text();
    } catch (TimeoutException e) {
      throw failed(command, e.getMessage(), packages, e);
    } catch (IOException e) {
      throw new InvalidUsageException(
          ErrorId.OPTIONS,
          "--compare mpi: there is no %s in PATH, which %s".formatted(tool, purpose),
          "apt-get install " + packages,
          e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new SystemErrorException(
          ErrorId.COMPARISON, tool + " was interrupted", "run the command again", e);
    }
  }

  private static SystemErrorException failed(
      List<String> command, String said, String packages, Exception cause) {
    return new SystemErrorException(
        ErrorId.COMPARISON,
        "%s fails:%n%s".formatted(String.join(" ", command), said),
        "run it by hand and see; apt-get install " + packages + " may help",
        cause);
  }
}
