package org.nccl4j.device.host.kernel.nvls;

import java.util.stream.IntStream;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.symmetric.MulticastMemory;

/** Single accesses to all members' memories, outside a communicator's kernels. Any thread. */
public final class HostMulticastProbe {
  private HostMulticastProbe() {}

  private static MulticastAccess access(MulticastMemory all) {
    return new MulticastAccess(
        all.views(), IntStream.range(0, all.views().size()).boxed().toList());
  }

  /** As {@link org.nccl4j.device.kernel.KernelDevice#loadCombined}. */
  public static void load(
      MulticastMemory all, DataType type, RedOp op, long offset, DeviceMemory target) {
    access(all)
        .loadReduce(
            Reductions.ofAll(type, op, all.views().size()),
            offset,
            HostMemory.of(target),
            0,
            Math.toIntExact(target.size() / type.bytes()),
            type.bytes());
  }

  /** As {@link org.nccl4j.device.kernel.KernelDevice#storeToAll}. */
  public static void store(DeviceMemory source, MulticastMemory all, long offset) {
    access(all).store(HostMemory.of(source), 0, offset, Math.toIntExact(source.size()));
  }
}
