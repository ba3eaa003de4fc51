package org.nccl4j.device.cuda.memory;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.GpuCleanup;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.symmetric.MulticastMemory;

/**
 * A multicast object without the switch: each member maps the memory of every other, and its
 * kernels access them one after the other. Calls none of the driver's multicast functions.
 */
public final class EmulatedMulticast implements MulticastObject {
  private final Gpu gpu;
  private final Group group;
  private final GpuCleanup undo;
  private final CudaShareableMemory[] memories;
  private OwnedFd exported;

  public EmulatedMulticast(Gpu gpu, Group group) {
    this.gpu = gpu;
    this.group = group;
    this.undo = new GpuCleanup(gpu);
    this.memories = new CudaShareableMemory[group.members()];
  }

  @Override
  public void create() {
    CudaShareableMemory own = CudaShareableMemory.create(gpu, group.bytes());
    memories[group.member()] = own;
    undo.push(own::close);
    exported = new OwnedFd(own.exportFileDescriptor());
    undo.push(exported::close);
  }

  @Override
  public int descriptor() {
    return exported.value();
  }

  @Override
  public boolean wants(int member) {
    return member != group.member();
  }

  @Override
  public void accept(int member, int descriptor) {
    try (OwnedFd received = new OwnedFd(descriptor)) {
      if (memories[member] != null) {
        throw new InternalErrorException(
            "member %d joined a multicast object twice".formatted(member), "report this");
      }
      CudaShareableMemory other =
          CudaShareableMemory.importFrom(gpu, received.value(), memories[group.member()].size());
      memories[member] = other;
      undo.push(other::close);
    }
  }

  /** There is no object that it could be added to. */
  @Override
  public void addDevice() {}

  /** The memory was allocated to be given to the others. */
  @Override
  public void bind() {}

  /** Each memory was mapped when it came. */
  @Override
  public void map() {}

  @Override
  public DeviceMemory unicast() {
    return memories[group.member()].local();
  }

  @Override
  public MulticastMemory multicast() {
    List<DeviceMemory> views = new ArrayList<>();
    for (CudaShareableMemory memory : memories) {
      views.add(memory.local());
    }
    return new MulticastMemory(/* emulated= */ true, List.copyOf(views));
  }

  @Override
  public void close() {
    undo.run();
  }
}
