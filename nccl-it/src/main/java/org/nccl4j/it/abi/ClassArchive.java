package org.nccl4j.it.abi;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/**
 * Loads the classes that a program for NCCL needs, so that the JVM archives them at its end
 * (-XX:ArchiveClassesAtExit). The script {@code nccl} runs it, with NCCL4J_DEVICE=host.
 */
final class ClassArchive {
  /** Names of classes that creating a communicator needs, a resource of nccl-api. */
  private static final String CREATION = "META-INF/nccl4j/creation.classes";

  /** The class of the JDK that the C side initializes when it has started a JVM (jvm.c). */
  private static final String PROCESSES = "java.lang.ProcessImpl";

  private ClassArchive() {}

  /** Creates a communicator as a program does; the exit status is 1 if that fails. */
  public static void main(String[] arguments) throws IOException, ClassNotFoundException {
    Class.forName(PROCESSES);
    SocketsAhead.initialize();
    long[] handles = new long[1];
    byte[] id = Entry.uniqueId();
    int result = Entry.initAll(new int[1], null, new String[2], handles);
    if (id == null || result != Results.SUCCESS || Entry.close(handles[0], false) != 0) {
      throw new IOException(Entry.lastError());
    }
    ClassLoader loader = ClassArchive.class.getClassLoader();
    try (InputStream list = loader.getResourceAsStream(CREATION)) {
      if (list != null) {
        new String(list.readAllBytes(), StandardCharsets.UTF_8)
            .lines()
            .forEach(name -> load(name, loader));
      }
    }
  }

  private static void load(String name, ClassLoader loader) {
    try {
      Class.forName(name, /* initialize= */ false, loader);
    } catch (ClassNotFoundException | LinkageError e) {
      // Of a library version that is not there: it is not archived.
      return;
    }
  }
}
