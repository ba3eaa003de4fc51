package org.nccl4j.transport.p2p;

import java.nio.file.Path;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.shm.SharedSegment;

/** Makes shared memory, by the setting NCCL4J_SHM. */
@FunctionalInterface
interface SegmentSource {
  /** The setting's name. */
  String SETTING = "NCCL4J_SHM";

  /** A new segment. */
  SharedSegment create(long bytes);

  /**
   * The source of a value of the setting.
   *
   * @param value "memfd"; "devshm"; or the absolute path of a directory in another file system in
   *     memory
   */
  static SegmentSource of(String value) {
    if (value.equalsIgnoreCase("memfd")) {
      return SharedSegment::create;
    }
    if (value.equalsIgnoreCase("devshm")) {
      return bytes -> SharedSegment.createIn(Path.of("/dev/shm"), bytes);
    }
    if (value.startsWith("/")) {
      return bytes -> SharedSegment.createIn(Path.of(value), bytes);
    }
    throw new InvalidArgumentException(
        ErrorId.SETTING,
        "%s=%s is not a source of shared memory".formatted(SETTING, value),
        "set it to memfd (the default), devshm, or the absolute path of a tmpfs's directory");
  }
}
