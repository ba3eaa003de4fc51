package org.nccl4j.it.file;

import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Optional;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Paths that a user gives: in the locale C, letters other than ASCII's are in no path of Java. */
public final class GivenPath implements ITypeConverter<Path> {
  /** For options and parameters. */
  public GivenPath() {}

  /**
   * The path of a text.
   *
   * @throws InvalidArgumentException if it is no path in the process's locale
   */
  public static Path of(String text) {
    try {
      return Path.of(text);
    } catch (InvalidPathException e) {
      throw refused(e);
    }
  }

  /** The path of a text; empty if it is none. */
  public static Optional<Path> find(String text) {
    try {
      return Optional.of(Path.of(text));
    } catch (InvalidPathException e) {
      return Optional.empty();
    }
  }

  /** The error of a text that is no path. */
  public static InvalidArgumentException refused(InvalidPathException e) {
    return new InvalidArgumentException(
        ErrorId.FILE,
        "'%s' is not a file name in this process's locale (%s)"
            .formatted(e.getInput(), e.getReason()),
        "set LC_ALL=C.UTF-8, which has all letters",
        e);
  }

  @Override
  public Path convert(String text) {
    try {
      return of(text);
    } catch (InvalidArgumentException e) {
      TypeConversionException refusal = new TypeConversionException(e.problem());
      refusal.initCause(e);
      throw refusal;
    }
  }
}
