package org.nccl4j.it.file;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** A folder that is removed with its files when it is closed, or this process ends. Any thread. */
public final class TemporaryFolder implements AutoCloseable {
  private final Path path;
  private final Thread removing = new Thread(this::remove);
  private Runnable first = () -> {};

  private TemporaryFolder(Path path) {
    this.path = path;
  }

  /**
   * Makes a folder.
   *
   * @param prefix of its name
   * @throws IOException if that fails
   */
  public static TemporaryFolder create(String prefix) throws IOException {
    TemporaryFolder made = new TemporaryFolder(Files.createTempDirectory(prefix));
    Runtime.getRuntime().addShutdownHook(made.removing);
    return made;
  }

  /** Where it is. */
  public Path path() {
    return path;
  }

  /**
   * Sets what comes before the removal.
   *
   * @param first ends those that use the folder; does nothing if it is called again
   */
  public synchronized void endFirst(Runnable first) {
    this.first = first;
  }

  @Override
  public void close() {
    try {
      Runtime.getRuntime().removeShutdownHook(removing);
    } catch (IllegalStateException e) {
      return; // the process ends, and the hook removes it
    }
    remove();
  }

  private synchronized void remove() {
    first.run();
    try (Stream<Path> files = Files.walk(path)) {
      files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
    } catch (IOException e) {
      path.toFile().deleteOnExit();
    }
  }
}
