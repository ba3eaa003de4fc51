package org.nccl4j.transport.net.ib.device;

import java.util.TreeMap;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/**
 * The memory registered with one device. Memory within a registration that is still in use is not
 * registered again: registering pins pages, which takes far longer than sending them. A
 * registration ends with its last user, since only users know when memory is freed.
 */
public final class RegistrationCache {
  private static final long PAGE = 4096;

  private final Verbs verbs;
  private final long domain;
  private final String device;
  private final TreeMap<Long, Region> byStart = new TreeMap<>(Long::compareUnsigned);

  /** A registration. */
  public final class Region implements AutoCloseable {
    private final long handle;
    private final long start;
    private final long bytes;
    private final int localKey;
    private final int remoteKey;
    private final boolean relaxed;
    private final boolean cached;
    private int users = 1;

    private Region(long handle, long start, long bytes, boolean relaxed, boolean cached) {
      this.handle = handle;
      this.start = start;
      this.bytes = bytes;
      this.relaxed = relaxed;
      this.cached = cached;
      localKey = verbs.localKey(handle);
      remoteKey = verbs.remoteKey(handle);
    }

    public int localKey() {
      return localKey;
    }

    public int remoteKey() {
      return remoteKey;
    }

    /** True if a range of addresses lies in it. */
    public boolean holds(long from, long length) {
      return Long.compareUnsigned(start, from) <= 0
          && Long.compareUnsigned(from + length, start + bytes) <= 0;
    }

    /** Gives up one use. */
    @Override
    public void close() {
      synchronized (RegistrationCache.this) {
        if (--users == 0) {
          if (cached) {
            byStart.remove(start, this);
          }
          verbs.deregisterMemory(handle);
        }
      }
    }
  }

  RegistrationCache(Verbs verbs, long domain, String device) {
    this.verbs = verbs;
    this.domain = domain;
    this.device = device;
  }

  /** A registration that holds a range of addresses: one that there is, or a new one. */
  public Region register(long address, long bytes) {
    return register(address, bytes, false);
  }

  /**
   * A registration as by the other method.
   *
   * @param relaxed whether PCI Express may write the data in another order than they came in
   */
  public synchronized Region register(long address, long bytes, boolean relaxed) {
    long start = address & -PAGE;
    long length = (address + Math.max(bytes, 1) + PAGE - 1 & -PAGE) - start;
    for (Region before : byStart.headMap(start, true).descendingMap().values()) {
      if (before.relaxed == relaxed && before.holds(start, length)) {
        before.users++;
        return before;
      }
    }
    long handle = verbs.registerMemory(domain, start, length, relaxed, device);
    // A longer registration that begins at the same page replaces the shorter one.
    Region region = new Region(handle, start, length, relaxed, true);
    byStart.put(start, region);
    return region;
  }

  /**
   * A registration by dma-buf; not shared, since its descriptor may come to mean something else.
   */
  public synchronized Region registerDmaBuf(
      int fd, long offset, long bytes, long address, boolean relaxed) {
    long handle = verbs.registerDmaBuf(domain, fd, offset, bytes, address, relaxed, device);
    return new Region(handle, address, bytes, relaxed, false);
  }

  /** Returns the number of registrations that can be shared now. */
  public synchronized int size() {
    return byStart.size();
  }

  /** Ends those that are left. */
  synchronized void close() {
    for (Region region : byStart.values()) {
      verbs.deregisterMemory(region.handle);
    }
    byStart.clear();
  }
}
