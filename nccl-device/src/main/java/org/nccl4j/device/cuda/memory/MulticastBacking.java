package org.nccl4j.device.cuda.memory;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.GpuCleanup;
import org.nccl4j.device.cuda.driver.MulticastLibrary;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.symmetric.ShareableMemory;

/** The memory of a member that is bound to a multicast object of the driver. One thread. */
public interface MulticastBacking {
  /**
   * The size of a multicast object.
   *
   * @param alignment of its addresses
   */
  record Extent(long bytes, long alignment) {}

  /** Asks the driver what it takes, in the current context. Nothing is allocated. */
  Extent extent(MulticastObject.Group group);

  /**
   * Binds the memory at the object's begin; pushes the steps that undo this, but for the binding.
   */
  void bind(long handle, long bytes, GpuCleanup undo);

  /** All of the memory, where the member sees it, once bound. */
  DeviceMemory local();

  /**
   * Memory of its own, allocated when it is bound; in the least granules: those that the driver
   * recommends may be larger than all of the memory.
   */
  final class Allocated implements MulticastBacking {
    private final Gpu gpu;
    private CudaShareableMemory own;

    public Allocated(Gpu gpu) {
      this.gpu = gpu;
    }

    @Override
    public Extent extent(MulticastObject.Group group) {
      long memory = CudaShareableMemory.granularity(gpu);
      long multicast =
          MulticastLibrary.granularity(group.members(), group.bytes(), group.fabric(), gpu);
      long alignment = Math.max(memory, multicast);
      return new Extent((group.bytes() + alignment - 1) / alignment * alignment, alignment);
    }

    @Override
    public void bind(long handle, long bytes, GpuCleanup undo) {
      own = CudaShareableMemory.create(gpu, bytes);
      undo.push(own::close);
      gpu.context().run(() -> MulticastLibrary.bind(handle, own.handle(), bytes, gpu));
    }

    @Override
    public DeviceMemory local() {
      return own.local();
    }
  }

  /**
   * A user's memory, of which whole granules are bound, where it lies. It stays until it is
   * unbound, whatever its owner does with it.
   */
  final class Users implements MulticastBacking {
    private final Gpu gpu;
    private final ShareableMemory memory;

    public Users(Gpu gpu, ShareableMemory memory) {
      this.gpu = gpu;
      this.memory = memory;
    }

    @Override
    public Extent extent(MulticastObject.Group group) {
      long granule =
          MulticastLibrary.granularity(group.members(), group.bytes(), group.fabric(), gpu);
      long bytes = group.bytes() / granule * granule;
      if (bytes == 0 || memory.address() % granule != 0) {
        throw new InvalidArgumentException(
            ErrorId.WINDOW,
            "%d bytes at address 0x%x cannot be bound to a multicast object, which takes multiples of %d bytes"
                .formatted(group.bytes(), memory.address(), granule),
            "allocate windows' memory in multiples of that, aligned to it");
      }
      return new Extent(bytes, granule);
    }

    @Override
    public void bind(long handle, long bytes, GpuCleanup undo) {
      gpu.context()
          .run(
              () -> {
                long kept = DriverLibrary.retainMemory(memory.address());
                if (kept == 0) {
                  throw new InvalidArgumentException(
                      ErrorId.WINDOW,
                      "nothing is mapped at address 0x%x any more".formatted(memory.address()),
                      "keep windows' memory while it is being registered");
                }
                undo.push(() -> DriverLibrary.releaseMemory(kept, gpu));
                MulticastLibrary.bindAddress(handle, memory.address(), bytes, gpu);
              });
    }

    @Override
    public DeviceMemory local() {
      return CudaMemory.wrap(gpu, memory.address(), memory.size());
    }
  }
}
