package org.nccl4j.transport.net.memory;

import java.util.List;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.memory.DmaBuf;
import org.nccl4j.device.host.RegisteredMemory;

/**
 * Gives networks memory of a GPU that its user has registered.
 *
 * @param ways by which the card may be told of the memory, best first
 */
public record GpuBuffers(Gpu gpu, List<NetDevice.Pointers> ways) {
  /** Registers memory by one way. */
  interface Registering {
    /** Throws if the network or the driver does not take it. */
    NetMemory by(NetDevice.Pointers way);
  }

  /**
   * Registers memory with a connection. All connections get the same dma-buf, so that they can
   * share what the card knows of it.
   *
   * @throws NcclException if the card takes it in none of the ways
   */
  NetMemory register(NetConnection network, RegisteredMemory registration) {
    DeviceMemory memory = registration.memory();
    return byFirst(
        ways,
        way ->
            way == NetDevice.Pointers.DMA_BUF
                ? registration.withDescriptor(
                    () -> DmaBuf.of(gpu, memory.address(), memory.size()),
                    fd -> network.registerDmaBuf(memory, fd, DmaBuf.offset(memory.address())))
                : network.register(memory, registration));
  }

  /** Registers by the first way that works. */
  static NetMemory byFirst(List<NetDevice.Pointers> ways, Registering registering) {
    NcclException failure = null;
    for (NetDevice.Pointers way : ways) {
      try {
        return registering.by(way);
      } catch (NcclException e) {
        if (failure != null) {
          e.addSuppressed(failure);
        }
        failure = e;
      }
    }
    throw failure;
  }
}
