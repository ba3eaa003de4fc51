package org.nccl4j.transport.net.ib;

import java.util.HashMap;
import java.util.Map;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.transport.net.ib.device.DmaBufFile;
import org.nccl4j.transport.net.ib.verbs.Descriptors;

/**
 * A descriptor of a dma-buf for later registrations, which all connections of the process that keep
 * the same dma-buf share. Any thread.
 */
final class KeptDmaBuf implements AutoCloseable {
  private static final Map<DmaBufFile, KeptDmaBuf> ALL = new HashMap<>();

  /** Null if it is not known: then it is not shared. */
  private final DmaBufFile file;

  private final OwnedFd fd;
  private int users = 1;

  private KeptDmaBuf(DmaBufFile file, OwnedFd fd) {
    this.file = file;
    this.fd = fd;
  }

  /** Keeps a dma-buf until {@link #close}; null if this process may not have more descriptors. */
  static KeptDmaBuf of(int descriptor) {
    DmaBufFile file = DmaBufFile.of(descriptor);
    synchronized (ALL) {
      KeptDmaBuf known = file == null ? null : ALL.get(file);
      if (known != null) {
        known.users++;
        return known;
      }
      OwnedFd fd = Descriptors.duplicate(descriptor);
      KeptDmaBuf kept = fd == null ? null : new KeptDmaBuf(file, fd);
      if (file != null && kept != null) {
        ALL.put(file, kept);
      }
      return kept;
    }
  }

  int descriptor() {
    return fd.value();
  }

  /** Gives up one use. */
  @Override
  public void close() {
    synchronized (ALL) {
      if (--users == 0) {
        ALL.remove(file, this);
        fd.close();
      }
    }
  }
}
