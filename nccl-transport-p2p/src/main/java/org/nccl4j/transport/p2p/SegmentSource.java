package org.nccl4j.transport.p2p;

import java.nio.file.Path;
import org.nccl4j.device.shm.SharedSegment;

/** Makes shared memory, by the setting NCCL4J_SHM. */
@FunctionalInterface
interface SegmentSource {
  /** A new segment. */
  SharedSegment create(long bytes);

  /**
   * The source of a value of the setting.
   *
   * @param value "memfd"; "devshm"; or the absolute path of a directory in another file system in
   *     memory
   */
  static SegmentSource of(String value) {
    if (value.equals("memfd")) {
      return SharedSegment::create;
    }
    Path directory = Path.of(value.equals("devshm") ? "/dev/shm" : value);
    return bytes -> SharedSegment.createIn(directory, bytes);
  }
}
