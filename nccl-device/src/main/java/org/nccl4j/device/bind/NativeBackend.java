package org.nccl4j.device.bind;

import java.util.function.Supplier;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

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

  /** The reason why addresses cannot be read and written; null if they can. */
  private static final Throwable OBSTACLE =
      FOREIGN ? obstacle(ForeignAccess::probe) : obstacle(Jffi::probe);

  /** False if addresses cannot be read and written: native access is denied, or jffi is absent. */
  static final boolean ADDRESSES = OBSTACLE == null;

  /** The remedy where native access is denied. */
  static final String ALLOW =
      "start java with --enable-native-access=ALL-UNNAMED if nccl4j is on the class path, or with"
          + (FOREIGN
              ? " --enable-native-access=org.nccl4j.device if it is on the module path"
              : " --enable-native-access=org.jnrproject.jffi if it is on the module path");

  private NativeBackend() {}

  private static Throwable obstacle(Supplier<Object> probe) {
    try {
      return probe.get() == null ? new LinkageError("without a reason") : null;
    } catch (LinkageError | IllegalCallerException e) {
      return e; // each later use says why
    }
  }

  /** The error of what needs native access, where {@link #ADDRESSES} is false. */
  static SystemErrorException unavailable() {
    if (FOREIGN) {
      return new SystemErrorException(ErrorId.LIBRARY, "this JVM denies native access", ALLOW);
    }
    UnsatisfiedLinkError error = new UnsatisfiedLinkError(String.valueOf(OBSTACLE));
    error.initCause(OBSTACLE);
    return NativeLibrary.failure(
        "jffi",
        error,
        "add jffi and jnr-ffi, dependencies of nccl-device, to the class path or the module path;"
            + " give jffi a folder for its library with -Djava.io.tmpdir=DIR; or use Java 22 or"
            + " newer, where nccl4j needs no jffi");
  }
}
