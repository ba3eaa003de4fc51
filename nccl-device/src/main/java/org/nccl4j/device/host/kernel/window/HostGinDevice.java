package org.nccl4j.device.host.kernel.window;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.kernel.gin.GinDevice;

/** The host for kernels' puts: all memory is the processor's, and a copy is done at once. */
public record HostGinDevice(Device device) implements GinDevice {
  @Override
  public long hostAddress(long address) {
    return address;
  }

  @Override
  public Shared allocate(long bytes) {
    DeviceMemory memory = device.allocate(bytes);
    return new Shared() {
      @Override
      public long host() {
        return memory.address();
      }

      @Override
      public long address() {
        return memory.address();
      }

      @Override
      public void close() {
        memory.close();
      }
    };
  }

  @Override
  public Copies copies() {
    return new Copies() {
      private long begun;

      @Override
      public void begin(long to, long from, long bytes) {
        NativeMemory.copy(from, to, bytes);
        begun++;
      }

      @Override
      public long begun() {
        return begun;
      }

      @Override
      public long done() {
        return begun;
      }

      @Override
      public void close() {}
    };
  }
}
