package org.nccl4j.device.cuda;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;

/**
 * Windows over ranks of this process, without the engine: two of the same size on each rank. Where
 * the ranks have NVLS, they are reached by emulated multicast.
 */
public final class DirectRanks implements AutoCloseable {
  public final List<WindowView> sends = new ArrayList<>();
  public final List<WindowView> recvs = new ArrayList<>();
  public final List<DeviceMemory> send;
  public final List<DeviceMemory> recv;
  final List<DeviceMemory> resources;
  private final List<FlatRange> ranges = new ArrayList<>();
  private final List<ShareableMemory> exported = new ArrayList<>();

  public DirectRanks(GpuRanks ranks, long bytes) {
    this(ranks, bytes, ranks.devices.get(0).stride(ranks.n));
  }

  /**
   * With a stride of the caller's: a process cannot reserve the devices' own for each of many
   * ranks.
   */
  DirectRanks(GpuRanks ranks, long bytes, long stride) {
    long resourceBytes = ranks.devices.get(0).resourceBytes(ranks.n);
    resources = allocate(ranks, resourceBytes);
    send = allocate(ranks, bytes);
    recv = allocate(ranks, bytes);
    for (int rank = 0; rank < ranks.n; rank++) {
      CudaDevice device = ranks.devices.get(rank);
      FlatRange range = device.reserve(ranks.n, Math.max(stride, 1L << 32));
      ranges.add(range);
      WindowView library = map(ranks, rank, range, 0, resources, 0);
      long second = toGranule(device, resourceBytes);
      sends.add(map(ranks, rank, range, second, send, 1));
      recvs.add(map(ranks, rank, range, second + toGranule(device, bytes), recv, 2));
      ranks
          .communicators
          .get(rank)
          .attach(new SymmetricSpace(0, ranks.n, rank, library, range.address(), range.stride()));
    }
  }

  private static long toGranule(CudaDevice device, long bytes) {
    long granule = device.granularity();
    return (bytes + granule - 1) / granule * granule;
  }

  private static List<DeviceMemory> allocate(GpuRanks ranks, long bytes) {
    List<DeviceMemory> all = new ArrayList<>();
    for (CudaDevice device : ranks.devices) {
      all.add(device.memAlloc(bytes));
    }
    return all;
  }

  private WindowView map(
      GpuRanks ranks,
      int rank,
      FlatRange range,
      long offset,
      List<DeviceMemory> memories,
      long number) {
    List<DeviceMemory> views = new ArrayList<>();
    for (int place = 0; place < ranks.n; place++) {
      ShareableMemory allocation =
          ranks.devices.get(place).exportable(memories.get(place)).orElseThrow();
      exported.add(allocation);
      views.add(range.map(place, offset, allocation).slice(0, memories.get(place).size()));
    }
    MulticastMemory all =
        ranks.spec.nvls() == null ? null : new MulticastMemory(/* emulated= */ true, views);
    return new WindowView(number, memories.get(rank).address(), views, all);
  }

  @Override
  public void close() {
    ranges.forEach(FlatRange::close);
    exported.forEach(ShareableMemory::release);
    resources.forEach(DeviceMemory::close);
    send.forEach(DeviceMemory::close);
    recv.forEach(DeviceMemory::close);
  }
}
