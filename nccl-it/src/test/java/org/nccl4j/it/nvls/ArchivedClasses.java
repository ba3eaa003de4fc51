package org.nccl4j.it.nvls;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/**
 * A class data archive of the JVM, for tests that start many processes with the same classes: they
 * start in two thirds of the time. An archive takes classes from jars alone, so directories of the
 * class path become jars. The test JVMs of a build share them.
 */
public final class ArchivedClasses {
  /** Processes of a class path that start without an archive: fewer are not worth one. */
  private static final int WITHOUT = 4;

  private static final Path ARCHIVES = archives();

  /** The file with the options of a process that uses an archive; none if it cannot be made. */
  private static final String MADE = "options";

  private static final Map<String, ArchivedClasses> ALL = new HashMap<>();

  private final String classPath;
  private Path folder;
  private int started;
  private List<String> options;

  private ArchivedClasses(String classPath) {
    this.classPath = classPath;
  }

  /** Beside the classes of a build; where there is no build, for this JVM alone. */
  private static Path archives() {
    Path target = Path.of("target").toAbsolutePath();
    if (Files.isDirectory(target)) {
      return target.resolve("class-archives");
    }
    try {
      Path own = Files.createTempDirectory("nccl4j-classes");
      Runtime.getRuntime().addShutdownHook(new Thread(() -> removeAtEnd(own)));
      return own;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void removeAtEnd(Path folder) {
    try {
      remove(folder);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A process that makes the archive when it ends; its options come before its main class. */
  public interface Training {
    void run(List<String> options) throws Exception;
  }

  /** The JVM's options for a process: its class path, and the archive if there is one. */
  public static synchronized List<String> options(String classPath, Training training)
      throws Exception {
    ArchivedClasses archived = ALL.computeIfAbsent(classPath, ArchivedClasses::new);
    if (archived.options == null) {
      archived.find(training);
    }
    return archived.options == null || archived.options.isEmpty()
        ? List.of("-cp", classPath)
        : archived.options;
  }

  /** Takes the archive of these classes, or makes it unless another JVM does so now. */
  private void find(Training training) throws Exception {
    String paths = Integer.toHexString(classPath.hashCode());
    if (folder == null) {
      folder = ARCHIVES.resolve(paths + "-" + Long.toHexString(state()));
    }
    Path made = folder.resolve(MADE);
    if (++started >= WITHOUT && !Files.exists(made)) {
      Files.createDirectories(folder);
      try (FileChannel file =
              FileChannel.open(
                  folder.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
          FileLock lock = file.tryLock()) {
        if (lock != null && !Files.exists(made)) {
          removeOlder(paths, folder);
          Path written = Files.write(folder.resolve("written"), make(training));
          Files.move(written, made, StandardCopyOption.ATOMIC_MOVE);
        }
      }
    }
    if (Files.exists(made)) {
      options = Files.readAllLines(made);
    }
  }

  /**
   * A sum of the JVM's version and of the names, sizes and times of all files on the class path.
   */
  private long state() throws IOException {
    CRC32 sum = new CRC32();
    sum.update(Runtime.version().toString().getBytes(StandardCharsets.UTF_8));
    for (String entry : classPath.split(File.pathSeparator)) {
      if (Files.exists(Path.of(entry))) {
        try (Stream<Path> files = Files.walk(Path.of(entry))) {
          for (Path file : files.filter(Files::isRegularFile).sorted().toList()) {
            String about =
                file + " " + Files.size(file) + " " + Files.getLastModifiedTime(file) + "\n";
            sum.update(about.getBytes(StandardCharsets.UTF_8));
          }
        }
      }
    }
    return sum.getValue();
  }

  /** Removes archives of the same class path with other classes: those of earlier builds. */
  private static void removeOlder(String paths, Path folder) throws IOException {
    try (Stream<Path> all = Files.list(ARCHIVES)) {
      for (Path each : all.toList()) {
        if (each.getFileName().toString().startsWith(paths + "-") && !each.equals(folder)) {
          remove(each);
        }
      }
    }
  }

  private static void remove(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
    }
  }

  private List<String> make(Training training) throws Exception {
    List<String> jars = new ArrayList<>();
    for (String entry : new LinkedHashSet<>(List.of(classPath.split(File.pathSeparator)))) {
      Path path = Path.of(entry);
      jars.add(Files.isDirectory(path) ? jar(path, folder.resolve(jars.size() + ".jar")) : entry);
    }
    String jarred = String.join(File.pathSeparator, jars);
    Path archive = folder.resolve("classes.jsa");
    training.run(List.of("-Xlog:cds*=off", "-XX:ArchiveClassesAtExit=" + archive, "-cp", jarred));
    return Files.exists(archive)
        ? List.of("-Xlog:cds*=off", "-XX:SharedArchiveFile=" + archive, "-cp", jarred)
        : List.of();
  }

  private static String jar(Path directory, Path jar) throws IOException {
    try (OutputStream out = Files.newOutputStream(jar);
        ZipOutputStream zip = new ZipOutputStream(out);
        Stream<Path> files = Files.walk(directory)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        byte[] bytes = Files.readAllBytes(file);
        CRC32 sum = new CRC32();
        sum.update(bytes);
        ZipEntry entry =
            new ZipEntry(directory.relativize(file).toString().replace(File.separatorChar, '/'));
        entry.setMethod(ZipEntry.STORED); // what is stored is read without an inflater
        entry.setSize(bytes.length);
        entry.setCrc(sum.getValue());
        zip.putNextEntry(entry);
        zip.write(bytes);
        zip.closeEntry();
      }
    }
    return jar.toString();
  }
}
