package org.nccl4j.it.nvls;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
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
 * class path become jars.
 */
public final class ArchivedClasses {
  /** Processes of a class path that start without an archive: fewer are not worth one. */
  private static final int WITHOUT = 4;

  private static final Map<String, ArchivedClasses> ALL = new HashMap<>();

  private final String classPath;
  private int started;
  private List<String> options = List.of();

  private ArchivedClasses(String classPath) {
    this.classPath = classPath;
  }

  /** A process that makes the archive when it ends; its options come before its main class. */
  public interface Training {
    void run(List<String> options) throws Exception;
  }

  /** The JVM's options for a process: its class path, and the archive if there is one. */
  public static synchronized List<String> options(String classPath, Training training)
      throws Exception {
    ArchivedClasses archived = ALL.computeIfAbsent(classPath, ArchivedClasses::new);
    if (++archived.started == WITHOUT) {
      archived.make(training);
    }
    return archived.options.isEmpty() ? List.of("-cp", classPath) : archived.options;
  }

  private void make(Training training) throws Exception {
    Path folder = Files.createTempDirectory("nccl4j-classes");
    folder.toFile().deleteOnExit();
    List<String> jars = new ArrayList<>();
    for (String entry : new LinkedHashSet<>(List.of(classPath.split(File.pathSeparator)))) {
      Path path = Path.of(entry);
      jars.add(
          Files.isDirectory(path) ? jar(path, temporary(folder, jars.size() + ".jar")) : entry);
    }
    String jarred = String.join(File.pathSeparator, jars);
    Path archive = temporary(folder, "classes.jsa");
    training.run(List.of("-Xlog:cds*=off", "-XX:ArchiveClassesAtExit=" + archive, "-cp", jarred));
    if (Files.exists(archive)) {
      options = List.of("-Xlog:cds*=off", "-XX:SharedArchiveFile=" + archive, "-cp", jarred);
    }
  }

  private static Path temporary(Path folder, String name) {
    Path file = folder.resolve(name);
    file.toFile().deleteOnExit();
    return file;
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
