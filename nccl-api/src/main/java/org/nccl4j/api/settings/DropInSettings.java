package org.nccl4j.api.settings;

import java.util.List;
import org.nccl4j.api.spi.Setting;

/**
 * Settings of {@code libnccl.so.2}, the library with NCCL's C interface. It reads those of the JVM
 * itself, from the environment alone, since it starts the JVM.
 */
public final class DropInSettings {
  public static final Setting<String> NCCL4J_DEVICE =
      Setting.choice(
          "NCCL4J_DEVICE",
          "cuda",
          List.of("cuda", "host"),
          "The device of communicators that C programs create: the thread's current GPU, or the"
              + " host. On the host, buffers are ordinary memory, streams are ignored, and a call"
              + " or the end of its group returns when the operation has ended.");

  public static final Setting<String> NCCL4J_JAVA_HOME =
      Setting.text(
          "NCCL4J_JAVA_HOME",
          "",
          "a Java runtime, 17 or newer",
          "The Java runtime that libnccl.so.2 starts; if unset, the archive's, then JAVA_HOME's."
              + " Read from the environment alone.");

  public static final Setting<String> NCCL4J_CLASS_PATH =
      Setting.text(
          "NCCL4J_CLASS_PATH",
          "",
          "a class path",
          "The classes that libnccl.so.2 loads; if unset, the jars in modules beside its folder."
              + " Read from the environment alone.");

  public static final Setting<Boolean> NCCL_COMM_BLOCKING =
      Setting.flag(
          "NCCL_COMM_BLOCKING",
          true,
          "Has calls of C programs that create communicators wait for the other ranks, whatever the"
              + " program's configuration says. In Java, the methods whose names end in Async do"
              + " not wait.");

  static final List<Setting<?>> ALL =
      List.of(NCCL4J_DEVICE, NCCL4J_JAVA_HOME, NCCL4J_CLASS_PATH, NCCL_COMM_BLOCKING);

  private DropInSettings() {}
}
