package org.nccl4j.transport.net.ib.device;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * The file of a dma-buf: the same for all its descriptors. No other dma-buf has it while one of
 * these is open, or the dma-buf is registered.
 *
 * @param attributes device and inode
 */
public record DmaBufFile(Map<String, Object> attributes) {
  /** The file of a descriptor; null if it is not known. */
  public static DmaBufFile of(int fd) {
    try {
      return new DmaBufFile(Files.readAttributes(Path.of("/proc/self/fd/" + fd), "unix:dev,ino"));
    } catch (IOException | UnsupportedOperationException e) {
      return null;
    }
  }
}
