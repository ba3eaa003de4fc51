package org.nccl4j.transport.net.ib.device;

import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.function.Supplier;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/**
 * The memory registered with one device. Memory within a registration of its owner that is still in
 * use is not registered again: registering pins pages, which takes far longer than sending them. A
 * registration ends with its last user.
 *
 * <p>Addresses alone do not tell which memory is meant: a device keeps the pages of memory that was
 * freed, and other memory may be at its addresses by then. That has another owner.
 */
public final class RegistrationCache {
  private static final System.Logger LOG = DebugLog.of("NET");
  private static final long PAGE = 4096;

  /** Longest wait for registrations that are being ended. */
  private static final long PATIENCE_MILLIS = 10_000;

  private final Verbs verbs;
  private final long domain;
  private final String device;
  private final Map<Object, List<Region>> byOwner = new IdentityHashMap<>();
  private final Map<DmaBufPart, Region> byDmaBuf = new HashMap<>();

  /** Registrations without users that the worker is to end. */
  private final Queue<Long> ending = new ArrayDeque<>();

  /** Null while there is none to end. */
  private Thread worker;

  private boolean closed;

  /**
   * A part of a dma-buf. A registration keeps its dma-buf, so no other one has that file meanwhile.
   */
  private record DmaBufPart(
      DmaBufFile file, long offset, long bytes, long address, boolean relaxed) {
    /** Null if the file of the descriptor is not known. */
    static DmaBufPart of(int fd, long offset, long bytes, long address, boolean relaxed) {
      DmaBufFile file = DmaBufFile.of(fd);
      return file == null ? null : new DmaBufPart(file, offset, bytes, address, relaxed);
    }
  }

  /** A registration. */
  public final class Region implements AutoCloseable {
    private final long handle;
    private final long start;
    private final long bytes;
    private final int localKey;
    private final int remoteKey;
    private final boolean relaxed;

    /** Null where it is registered by a dma-buf. */
    private final Object owner;

    /** Null where it is registered by its address. */
    private final DmaBufPart part;

    private int users = 1;

    private Region(
        long handle, long start, long bytes, boolean relaxed, Object owner, DmaBufPart part) {
      this.handle = handle;
      this.start = start;
      this.bytes = bytes;
      this.relaxed = relaxed;
      this.owner = owner;
      this.part = part;
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

    /** Gives up one use; nothing once the device is closed. */
    @Override
    public void close() {
      synchronized (RegistrationCache.this) {
        if (isLast()) {
          verbs.deregisterMemory(handle);
        }
      }
    }

    /** Gives up one use without waiting for the driver. */
    public void closeSoon() {
      synchronized (RegistrationCache.this) {
        if (isLast()) {
          ending.add(handle);
          endSoon();
        }
      }
    }

    private boolean isLast() {
      boolean last = !closed && --users == 0;
      if (last) {
        forget(this);
      }
      return last;
    }
  }

  RegistrationCache(Verbs verbs, long domain, String device) {
    this.verbs = verbs;
    this.domain = domain;
    this.device = device;
  }

  private void endSoon() {
    if (worker == null) {
      worker = DaemonThread.of(this::end, "nccl4j-deregister");
      boolean started = false;
      try {
        worker.start();
        started = true;
      } finally {
        worker = started ? worker : null;
      }
    }
  }

  /** Ends registrations until there are no more. */
  private void end() {
    for (Long handle = nextToEnd(); handle != null; handle = nextToEnd()) {
      try {
        verbs.deregisterMemory(handle);
      } catch (RuntimeException e) {
        LOG.log(Level.WARNING, "memory stays registered with {0}: {1}", device, e.getMessage());
      }
    }
  }

  private synchronized Long nextToEnd() {
    Long next = ending.poll();
    if (next == null) {
      worker = null;
      notifyAll();
    }
    return next;
  }

  /** Waits for the thread that ends registrations; whether there was one. */
  private boolean awaitEnds() {
    long end = System.nanoTime() + PATIENCE_MILLIS * 1_000_000;
    boolean any = worker != null;
    boolean interrupted = false;
    while (worker != null && System.nanoTime() - end < 0) {
      try {
        wait(PATIENCE_MILLIS);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    return any;
  }

  private void forget(Region region) {
    byDmaBuf.remove(region.part, region);
    List<Region> others = byOwner.get(region.owner);
    if (others != null && others.remove(region) && others.isEmpty()) {
      byOwner.remove(region.owner);
    }
  }

  /**
   * A registration that holds a range of addresses: one of the same owner that there is, or a new
   * one.
   *
   * @param owner tells the memory at these addresses from other memory there, by its identity
   */
  public Region register(Object owner, long address, long bytes) {
    return register(owner, address, bytes, false);
  }

  /**
   * A registration as by the other method.
   *
   * @param relaxed whether PCI Express may write the data in another order than they came in
   */
  public synchronized Region register(Object owner, long address, long bytes, boolean relaxed) {
    long start = address & -PAGE;
    long length = (address + Math.max(bytes, 1) + PAGE - 1 & -PAGE) - start;
    return registered(
        () -> find(owner, start, length, relaxed),
        () -> {
          long handle = verbs.registerMemory(domain, start, length, relaxed, device);
          Region region = new Region(handle, start, length, relaxed, owner, null);
          byOwner.computeIfAbsent(owner, first -> new ArrayList<>()).add(region);
          return region;
        });
  }

  private Region find(Object owner, long start, long length, boolean relaxed) {
    for (Region before : byOwner.getOrDefault(owner, List.of())) {
      if (before.relaxed == relaxed && before.holds(start, length)) {
        return before;
      }
    }
    return null;
  }

  /**
   * A registration of a part of a dma-buf: one that there is, or a new one. Other descriptors of
   * the dma-buf are as good, and another dma-buf of the same addresses is not.
   */
  public synchronized Region registerDmaBuf(
      int fd, long offset, long bytes, long address, boolean relaxed) {
    DmaBufPart part = DmaBufPart.of(fd, offset, bytes, address, relaxed);
    return registered(
        () -> byDmaBuf.get(part),
        () -> {
          long handle = verbs.registerDmaBuf(domain, fd, offset, bytes, address, relaxed, device);
          Region region = new Region(handle, address, bytes, relaxed, null, part);
          if (part != null) {
            byDmaBuf.put(part, region);
          }
          return region;
        });
  }

  /**
   * Finds or registers, again if the limit may be that of memory whose registration is being ended:
   * another thread may have registered the same meanwhile.
   *
   * @param finding gives null where there is none
   */
  private Region registered(Supplier<Region> finding, Supplier<Region> registering) {
    try {
      return foundOr(registering, finding.get());
    } catch (NcclException e) {
      if (!awaitEnds() || closed) {
        throw e;
      }
      return foundOr(registering, finding.get());
    }
  }

  private static Region foundOr(Supplier<Region> registering, Region found) {
    if (found == null) {
      return registering.get();
    }
    found.users++;
    return found;
  }

  /** Returns the number of registrations that can be shared now. */
  public synchronized int size() {
    return byOwner.values().stream().mapToInt(List::size).sum() + byDmaBuf.size();
  }

  /** Ends those that are left. */
  synchronized void close() {
    closed = true;
    awaitEnds();
    ending.forEach(verbs::deregisterMemory);
    ending.clear();
    for (List<Region> regions : byOwner.values()) {
      regions.forEach(region -> verbs.deregisterMemory(region.handle));
    }
    byOwner.clear();
    for (Region region : byDmaBuf.values()) {
      verbs.deregisterMemory(region.handle);
    }
    byDmaBuf.clear();
  }
}
