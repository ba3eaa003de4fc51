package org.nccl4j.device.host.symmetric;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.device.symmetric.MulticastMemory;

/**
 * The host's emulation of a multicast object: each member's memory is a shared segment, which all
 * others map, in one process or in several.
 */
public final class HostMulticast implements MulticastObject {
  private final Device device;
  private final Group group;
  private final MappedRegion[] others;
  private final List<DeviceMemory> views = new ArrayList<>();
  private SharedSegment own;

  /** One member's side; nothing is allocated. */
  public HostMulticast(Device device, Group group) {
    this.device = device;
    this.group = group;
    this.others = new MappedRegion[group.members()];
  }

  @Override
  public void create() {
    own = SharedSegment.create(group.bytes());
  }

  @Override
  public int descriptor() {
    return own.fd();
  }

  @Override
  public boolean wants(int member) {
    return member != group.member();
  }

  @Override
  public void accept(int member, int descriptor) {
    MappedRegion region = SharedSegment.attach(descriptor, group.bytes());
    if (!wants(member) || others[member] != null) {
      region.close();
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "member %d of a multicast object came twice".formatted(member),
          "run the same version of nccl4j on all ranks, and no two ranks with the same number");
    }
    others[member] = region;
  }

  /** There is one device. */
  @Override
  public void addDevice() {}

  /** A segment is zeroed when new, and its memory is there when it is touched. */
  @Override
  public void bind() {}

  @Override
  public void map() {
    for (int member = 0; member < group.members(); member++) {
      boolean mine = member == group.member();
      if (!mine && others[member] == null) {
        throw new InternalErrorException(
            "member %d of a multicast object has not come".formatted(member), "report this");
      }
      long address = mine ? own.address() : others[member].address();
      views.add(device.wrap(address, group.bytes()));
    }
  }

  @Override
  public DeviceMemory unicast() {
    return views.get(group.member());
  }

  @Override
  public MulticastMemory multicast() {
    return new MulticastMemory(/* emulated= */ true, List.copyOf(views));
  }

  @Override
  public void close() {
    views.forEach(DeviceMemory::close);
    views.clear();
    for (MappedRegion region : others) {
      if (region != null) {
        region.close();
      }
    }
    Arrays.fill(others, null);
    if (own != null) {
      own.close();
      own = null;
    }
  }
}
