package org.nccl4j.device.cuda.memory;

import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.GpuCleanup;
import org.nccl4j.device.cuda.driver.MulticastLibrary;
import org.nccl4j.device.cuda.driver.SharingLibrary;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.symmetric.MulticastMemory;

/**
 * A multicast object of the driver: NVLink SHARP. The first member creates it and the others import
 * it; then each adds its device, binds its memory, and maps the object a second time beside its own
 * memory: stores there go to all members, and loads there with an operator are combined by the
 * switch.
 *
 * <p>Physical memory is bound to the object as long as the last member has it, whose order of going
 * does not matter. An object takes one of few slots of the switch.
 */
public final class DriverMulticast implements MulticastObject {
  private static final int ROOT = 0;

  private final Gpu gpu;
  private final Group group;
  private final MulticastBacking backing;
  private final GpuCleanup undo;
  private MulticastBacking.Extent extent;
  private long handle;
  private OwnedFd exported;
  private byte[] fabricHandle = new byte[0];
  private long address;

  /**
   * A member's side.
   *
   * @param backing the member's memory
   */
  public DriverMulticast(Gpu gpu, Group group, MulticastBacking backing) {
    this.gpu = gpu;
    this.group = group;
    this.backing = backing;
    this.undo = new GpuCleanup(gpu);
  }

  @Override
  public void create() {
    gpu.context().run(this::createHere);
  }

  private void createHere() {
    extent = backing.extent(group);
    if (group.member() == ROOT) {
      hold(MulticastLibrary.create(group.members(), extent.bytes(), group.fabric(), gpu));
      if (group.fabric()) {
        fabricHandle = SharingLibrary.exportFabricHandle(handle, gpu);
      } else {
        exported = new OwnedFd(SharingLibrary.exportFileDescriptor(handle, gpu));
        undo.push(exported::close);
      }
    }
  }

  private void hold(long made) {
    handle = made;
    undo.push(() -> DriverLibrary.releaseMemory(made, gpu));
  }

  @Override
  public int descriptor() {
    return exported == null ? -1 : exported.value();
  }

  @Override
  public byte[] fabricHandle() {
    return fabricHandle.clone();
  }

  @Override
  public boolean wants(int member) {
    return member == ROOT && group.member() != ROOT;
  }

  @Override
  public void accept(int member, int descriptor) {
    try (OwnedFd received = new OwnedFd(descriptor)) {
      checkWanted(member);
      gpu.context().run(() -> hold(SharingLibrary.importFileDescriptor(received.value(), gpu)));
    }
  }

  @Override
  public void accept(int member, byte[] received) {
    checkWanted(member);
    gpu.context().run(() -> hold(SharingLibrary.importFabricHandle(received, gpu)));
  }

  private void checkWanted(int member) {
    if (!wants(member) || handle != 0) {
      throw new InternalErrorException(
          "member %d joined a multicast object without a request".formatted(member), "report this");
    }
  }

  @Override
  public void addDevice() {
    gpu.context().run(() -> MulticastLibrary.addDevice(handle, gpu.index(), gpu));
  }

  @Override
  public void bind() {
    backing.bind(handle, extent.bytes(), undo);
    undo.push(() -> MulticastLibrary.unbind(handle, gpu.index(), extent.bytes(), gpu));
  }

  @Override
  public void map() {
    gpu.context().run(this::mapHere);
  }

  private void mapHere() {
    long size = extent.bytes();
    address = DriverLibrary.reserveAddress(size, extent.alignment(), gpu);
    undo.push(() -> DriverLibrary.freeAddress(address, size, gpu));
    DriverLibrary.map(address, size, handle, gpu);
    undo.push(() -> DriverLibrary.unmap(address, size, gpu));
    // Would wait in the driver for members that have not bound their memory; all have.
    DriverLibrary.setAccess(address, size, new int[] {gpu.index()}, gpu);
  }

  @Override
  public DeviceMemory unicast() {
    return backing.local();
  }

  @Override
  public MulticastMemory multicast() {
    return new MulticastMemory(
        /* emulated= */ false, List.of(CudaMemory.wrap(gpu, address, extent.bytes())));
  }

  @Override
  public void close() {
    undo.run();
  }
}
