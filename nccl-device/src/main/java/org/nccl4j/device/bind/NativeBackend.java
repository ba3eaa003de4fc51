package org.nccl4j.device.bind;

import java.util.function.Supplier;

/**
 * The choice between the JDK's foreign functions, from Java 22 on, and jnr-ffi. The system property
 * {@code nccl4j.native} set to {@code jnr} selects jnr-ffi on any JVM.
 */
final class NativeBackend {
  /** The system property. */
  static final String PROPERTY = "nccl4j.native";

  /** True if native functions are called through java.lang.foreign. */
  static final boolean FOREIGN =
      Runtime.version().feature() >= 22 && !"jnr".equals(System.getProperty(PROPERTY));

  /** False if addresses cannot be read and written: native access is denied, or jffi is absent. */
  static final boolean ADDRESSES = FOREIGN ? works(ForeignAccess::probe) : works(Jffi::probe);

  /** The remedy where native access is denied. */
  static final String ALLOW =
      "start java with --enable-native-access=ALL-UNNAMED if nccl4j is on the class path, or with"
          + (FOREIGN
              ? " --enable-native-access=org.nccl4j.device if it is on the module path"
              : " --enable-native-access=org.jnrproject.jffi if it is on the module path");

  private NativeBackend() {}

  private static boolean works(Supplier<Object> probe) {
    try {
      return probe.get() != null;
    } catch (LinkageError | IllegalCallerException e) {
      return false; // each later use says why
    }
  }
}
