package org.nccl4j.device.host.kernel;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.MulticastMemory;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;

/** Ranks of this process, connected by plain memory, without the engine. */
final class LocalRanks implements AutoCloseable {
  final HostDevice device = HostDevice.instance();
  final int n;
  final ConnectionLayout layout;
  final List<KernelCommunicator> communicators = new ArrayList<>();
  final List<DeviceStream> streams = new ArrayList<>();
  private final List<DeviceMemory> memories = new ArrayList<>();

  LocalRanks(int n, ConnectionLayout layout, Duration deadline) {
    this(n, layout, deadline, 0);
  }

  /** With NVLS in chunks of so many bytes, unless that is 0. */
  LocalRanks(int n, ConnectionLayout layout, Duration deadline, int nvlsChunkBytes) {
    this.n = n;
    this.layout = layout;
    Connection[][] fromTo = new Connection[n][n];
    for (int from = 0; from < n; from++) {
      for (int to = 0; to < n; to++) {
        fromTo[from][to] =
            from == to
                ? null
                : new Connection(memory(layout.dataBytes()), memory(ConnectionLayout.CREDIT_BYTES));
      }
    }
    int[] ring = IntStream.range(0, n).toArray();
    List<Nvls> nvls = nvlsChunkBytes == 0 ? null : nvls(new NvlsLayout(n, 1, nvlsChunkBytes));
    for (int rank = 0; rank < n; rank++) {
      List<Connection> sends = new ArrayList<>();
      List<Connection> recvs = new ArrayList<>();
      for (int peer = 0; peer < n; peer++) {
        sends.add(fromTo[rank][peer]);
        recvs.add(fromTo[peer][rank]);
      }
      communicators.add(
          device.createKernelCommunicator(
              new KernelCommunicatorSpec(
                  "test",
                  rank,
                  n,
                  layout,
                  sends,
                  recvs,
                  List.of(ring),
                  trees(rank),
                  n,
                  Progress.NONE,
                  deadline,
                  nvls == null ? null : nvls.get(rank))));
      streams.add(device.createStream());
    }
  }

  /** Every rank is a head. */
  private List<Nvls> nvls(NvlsLayout nvlsLayout) {
    List<DeviceMemory> views = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      views.add(memory(nvlsLayout.bytes()));
    }
    MulticastMemory all = new MulticastMemory(/* emulated= */ true, views);
    List<Integer> heads = IntStream.range(0, n).boxed().toList();
    return heads.stream().map(r -> new Nvls(nvlsLayout, heads, r, views.get(r), all)).toList();
  }

  private DeviceMemory memory(long bytes) {
    DeviceMemory memory = device.allocate(bytes);
    memories.add(memory);
    return memory;
  }

  /** A chain from the last rank to the first, and the other way round. */
  private List<Tree> trees(int rank) {
    return List.of(new Tree(rank - 1, rank + 1 < n ? List.of(rank + 1) : List.of()), binary(rank));
  }

  /** A heap-shaped binary tree. */
  private Tree binary(int rank) {
    List<Integer> down = new ArrayList<>();
    for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < n; child++) {
      down.add(child);
    }
    return new Tree(rank == 0 ? -1 : (rank - 1) / 2, down);
  }

  @Override
  public void close() {
    streams.forEach(DeviceStream::close);
    communicators.forEach(KernelCommunicator::close);
    memories.forEach(DeviceMemory::close);
  }
}
