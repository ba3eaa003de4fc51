package org.nccl4j.device.cuda;

import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.kernel.MulticastMemory;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.shm.OwnedFd;

/**
 * A multicast object of the driver: NVLink SHARP. The first member creates it and the others import
 * it; then each adds its device, allocates memory and binds it, and maps the object a second time
 * beside its own memory: what is stored there goes to all members, what is loaded there with an
 * operator is combined by the switch.
 *
 * <p>Physical memory is bound to the object as long as the last member has it, whose order of going
 * does not matter. An object takes one of few slots of the switch.
 */
final class DriverMulticast implements MulticastObject {
  private static final int ROOT = 0;

  private final CudaDevice device;
  private final Group group;
  private final Undo undo;
  private long size;
  private long alignment;
  private long handle;
  private OwnedFd exported;
  private CudaShareableMemory own;
  private long address;

  DriverMulticast(CudaDevice device, Group group) {
    this.device = device;
    this.group = group;
    this.undo = new Undo(device);
  }

  @Override
  public void create() {
    device.context().run(this::createHere);
  }

  private void createHere() {
    long memory = DriverLibrary.granularity(device.index(), device);
    long multicast = MulticastLibrary.granularity(group.members(), group.bytes(), device);
    alignment = Math.max(memory, multicast);
    size = (group.bytes() + alignment - 1) / alignment * alignment;
    if (group.member() == ROOT) {
      hold(MulticastLibrary.create(group.members(), size, device));
      exported = new OwnedFd(DriverLibrary.exportFileDescriptor(handle, device));
      undo.push(exported::close);
    }
  }

  private void hold(long made) {
    handle = made;
    undo.push(() -> DriverLibrary.releaseMemory(made, device));
  }

  @Override
  public int descriptor() {
    return exported == null ? -1 : exported.value();
  }

  @Override
  public boolean wants(int member) {
    return member == ROOT && group.member() != ROOT;
  }

  @Override
  public void accept(int member, int descriptor) {
    try (OwnedFd received = new OwnedFd(descriptor)) {
      if (!wants(member) || handle != 0) {
        throw new InternalErrorException(
            "member %d of a multicast object came unasked".formatted(member), "report this");
      }
      device
          .context()
          .run(() -> hold(DriverLibrary.importFileDescriptor(received.value(), device)));
    }
  }

  @Override
  public void addDevice() {
    device.context().run(() -> MulticastLibrary.addDevice(handle, device.index(), device));
  }

  @Override
  public void bind() {
    own = CudaShareableMemory.create(device, size);
    undo.push(own::close);
    device.context().run(() -> MulticastLibrary.bind(handle, own.handle(), size, device));
    undo.push(() -> MulticastLibrary.unbind(handle, device.index(), size, device));
  }

  @Override
  public void map() {
    device.context().run(this::mapHere);
  }

  private void mapHere() {
    address = DriverLibrary.reserveAddress(size, alignment, device);
    undo.push(() -> DriverLibrary.freeAddress(address, size, device));
    DriverLibrary.map(address, size, handle, device);
    undo.push(() -> DriverLibrary.unmap(address, size, device));
    // Would wait in the driver for members that have not bound their memory; all have.
    DriverLibrary.setAccess(address, size, new int[] {device.index()}, device);
  }

  @Override
  public DeviceMemory unicast() {
    return own.local();
  }

  @Override
  public MulticastMemory multicast() {
    return new MulticastMemory(
        /* emulated= */ false, List.of(CudaMemory.wrap(device, address, size)));
  }

  @Override
  public void close() {
    undo.run();
  }
}
