package org.nccl4j.transport.net.ib;

import java.util.List;
import java.util.function.Consumer;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.device.RegistrationCache;

/**
 * Memory registered with the devices of the ports that a connection uses; a move may change these.
 * Its user may close it while the watch moves it.
 */
final class IbMemory implements NetMemory {
  /** A dma-buf that the memory is registered by, and where the memory begins in it. */
  record DmaBuf(int fd, long offset) {}

  private final DeviceMemory memory;

  /** Tells the memory from other memory at its addresses. */
  private final Object owner;

  /** Null where the memory is registered by its address. */
  private final DmaBuf dmaBuf;

  /** A descriptor for later registrations; null where there are none. */
  private final KeptDmaBuf kept;

  /** Of each port's device. */
  private RegistrationCache.Region[] regions;

  private RegistrationCache.Region[] next;
  private volatile boolean closed;

  /**
   * Registers memory with devices.
   *
   * @param owner by which devices share what they know of memory, and of no other at its addresses
   * @param dmaBuf null to register it by its address
   * @param kept a descriptor of the dma-buf for other devices, which this closes; null for none
   * @throws org.nccl4j.device.NcclException if one of them does not take it; then none has it
   */
  IbMemory(
      DeviceMemory memory,
      Object owner,
      DmaBuf dmaBuf,
      KeptDmaBuf kept,
      List<OpenDevice> devices,
      boolean relaxed) {
    this.memory = memory;
    this.owner = owner;
    this.dmaBuf = dmaBuf;
    this.kept = kept;
    try {
      regions = registered(devices, dmaBuf == null ? 0 : dmaBuf.fd(), relaxed);
    } finally {
      if (regions == null && kept != null) {
        kept.close();
      }
    }
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  int localKey(int port) {
    return regions[port].localKey();
  }

  int remoteKey(int port) {
    return regions[port].remoteKey();
  }

  boolean isClosed() {
    return closed;
  }

  /**
   * Registers the memory with other devices, too, and keeps to the first until {@link #move}.
   *
   * @throws org.nccl4j.device.NcclException if one of them does not take it
   */
  synchronized void prepare(List<OpenDevice> devices, boolean relaxed) {
    if (closed) {
      return;
    }
    if (dmaBuf != null && kept == null) {
      throw new SystemErrorException(
          ErrorId.INFINIBAND,
          "a dma-buf of %d bytes cannot be registered with another device".formatted(memory.size()),
          "raise ulimit -n, for another descriptor of each dma-buf");
    }
    stay();
    next = registered(devices, kept == null ? 0 : kept.descriptor(), relaxed);
  }

  private RegistrationCache.Region[] registered(List<OpenDevice> devices, int fd, boolean relaxed) {
    RegistrationCache.Region[] made = new RegistrationCache.Region[devices.size()];
    boolean all = false;
    try {
      for (int i = 0; i < made.length; i++) {
        RegistrationCache cache = devices.get(i).cache();
        made[i] =
            dmaBuf == null
                ? cache.register(owner, memory.address(), memory.size(), relaxed)
                : cache.registerDmaBuf(
                    fd, dmaBuf.offset(), memory.size(), memory.address(), relaxed);
      }
      all = true;
    } finally {
      if (!all) {
        close(made);
      }
    }
    return made;
  }

  /** Keeps to the devices of {@link #prepare} from now on, and gives up the others. */
  synchronized void move() {
    if (next == null) {
      return; // closed meanwhile
    }
    RegistrationCache.Region[] old = regions;
    regions = next;
    next = null;
    close(old);
  }

  /** Gives up what {@link #prepare} has registered. */
  synchronized void stay() {
    close(next);
    next = null;
  }

  private static void close(RegistrationCache.Region[] all) {
    for (int i = 0; all != null && i < all.length; i++) {
      if (all[i] != null) {
        all[i].close();
      }
    }
  }

  @Override
  public synchronized void close() {
    end(RegistrationCache.Region::close);
  }

  @Override
  public synchronized void closeSoon() {
    end(RegistrationCache.Region::closeSoon);
  }

  private void end(Consumer<RegistrationCache.Region> ending) {
    if (!closed) {
      closed = true;
      List.of(regions).forEach(ending);
      stay();
      if (kept != null) {
        kept.close();
      }
    }
  }
}
