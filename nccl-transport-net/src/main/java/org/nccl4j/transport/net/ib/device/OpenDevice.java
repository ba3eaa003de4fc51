package org.nccl4j.transport.net.ib.device;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/**
 * A device that is open: its context, its protection domain, the memory registered with it, and
 * what it says went wrong. One in a process for all communicators; open while anybody uses it.
 */
public final class OpenDevice implements AutoCloseable {
  private static final Map<String, OpenDevice> OPEN = new HashMap<>();

  private final Verbs verbs;
  private final String key;
  private final String name;
  private final long context;
  private final long domain;
  private final RegistrationCache cache;
  private final AsyncEvents events;
  private int users;

  private OpenDevice(Verbs verbs, String key, String name) {
    this.verbs = verbs;
    this.key = key;
    this.name = name;
    context = open(verbs, name);
    long allocated = 0;
    AsyncEvents made = null;
    try {
      made = new AsyncEvents(verbs, context, name);
      allocated = verbs.allocDomain(context);
    } finally {
      if (allocated == 0) {
        verbs.closeDevice(context);
      }
    }
    events = made;
    domain = allocated;
    cache = new RegistrationCache(verbs, domain, name);
  }

  /**
   * The device of a name, open. Each call needs one {@link #close}.
   *
   * @throws NcclException if it is not there or cannot be opened
   */
  public static OpenDevice of(IbSettings settings, String name) {
    synchronized (OPEN) {
      String key = settings.library() + "/" + name;
      OpenDevice device = OPEN.get(key);
      if (device == null) {
        device = new OpenDevice(Verbs.load(settings.library()), key, name);
        OPEN.put(key, device);
      }
      device.users++;
      return device;
    }
  }

  private static long open(Verbs verbs, String name) {
    List<Long> devices = verbs.deviceList();
    try {
      for (int i = 1; i < devices.size(); i++) {
        if (verbs.deviceName(devices.get(i)).equals(name)) {
          return verbs.openDevice(devices.get(i), name);
        }
      }
    } finally {
      if (!devices.isEmpty()) {
        verbs.freeDeviceList(devices.get(0));
      }
    }
    throw new SystemErrorException(
        ErrorId.INFINIBAND,
        "InfiniBand: device " + name + " is not there any more",
        "see the kernel's log (dmesg) for its driver");
  }

  public Verbs verbs() {
    return verbs;
  }

  public String name() {
    return name;
  }

  long context() {
    return context;
  }

  public long domain() {
    return domain;
  }

  /** The memory registered with it. */
  public RegistrationCache cache() {
    return cache;
  }

  /** Returns the device's error events. */
  public AsyncEvents events() {
    return events;
  }

  /**
   * True if a port is up now, and the device alive.
   *
   * @throws NcclException if the device does not say
   */
  public boolean isActive(int port) {
    events.read();
    if (events.isFatal()) {
      return false;
    }
    Offheap attributes = new Offheap(PORT_ATTR_BYTES);
    verbs.queryPort(context, port, attributes);
    boolean active = attributes.getInt(PORT_ATTR_STATE) == PORT_ACTIVE;
    if (active) {
      events.isUp(port);
    }
    return active;
  }

  @Override
  public void close() {
    synchronized (OPEN) {
      if (--users > 0) {
        return;
      }
      OPEN.remove(key);
      events.close();
      cache.close();
      verbs.deallocDomain(domain);
      verbs.closeDevice(context);
    }
  }
}
