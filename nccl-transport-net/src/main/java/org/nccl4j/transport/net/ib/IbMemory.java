package org.nccl4j.transport.net.ib;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.transport.net.ib.device.RegistrationCache;

/** Memory registered with the device that a connection uses; a move may change the device. */
final class IbMemory implements NetMemory {
  private final DeviceMemory memory;

  /** Null where the memory is registered by its address, or is not to be registered again. */
  private final OwnedFd dmaBuf;

  private final boolean byAddress;
  private final long offset;
  private RegistrationCache.Region region;
  private RegistrationCache.Region next;
  private volatile boolean closed;

  /** Memory that is registered by its address. */
  IbMemory(DeviceMemory memory, RegistrationCache.Region region) {
    this(memory, region, true, null, 0);
  }

  /** Memory that is registered by a dma-buf; null if there is no descriptor to keep. */
  IbMemory(DeviceMemory memory, RegistrationCache.Region region, OwnedFd dmaBuf, long offset) {
    this(memory, region, false, dmaBuf, offset);
  }

  private IbMemory(
      DeviceMemory memory,
      RegistrationCache.Region region,
      boolean byAddress,
      OwnedFd dmaBuf,
      long offset) {
    this.memory = memory;
    this.region = region;
    this.byAddress = byAddress;
    this.dmaBuf = dmaBuf;
    this.offset = offset;
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  int localKey() {
    return region.localKey();
  }

  int remoteKey() {
    return region.remoteKey();
  }

  boolean isClosed() {
    return closed;
  }

  /**
   * Registers the memory with another device, too, and keeps to the first until {@link #move}.
   *
   * @throws org.nccl4j.device.NcclException if the device does not take it
   */
  void prepare(RegistrationCache cache, boolean relaxed) {
    if (byAddress) {
      next = cache.register(memory.address(), memory.size(), relaxed);
    } else if (dmaBuf != null) {
      next = cache.registerDmaBuf(dmaBuf.value(), offset, memory.size(), memory.address(), relaxed);
    } else {
      throw new SystemErrorException(
          ErrorId.INFINIBAND,
          "a dma-buf of %d bytes cannot be registered with another device".formatted(memory.size()),
          "raise ulimit -n, for another descriptor of each dma-buf");
    }
  }

  /** Keeps to the device of {@link #prepare} from now on, and gives up the other. */
  void move() {
    RegistrationCache.Region old = region;
    region = next;
    next = null;
    old.close();
  }

  /** Gives up what {@link #prepare} has registered. */
  void stay() {
    if (next != null) {
      next.close();
      next = null;
    }
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      region.close();
      if (dmaBuf != null) {
        dmaBuf.close();
      }
    }
  }
}
