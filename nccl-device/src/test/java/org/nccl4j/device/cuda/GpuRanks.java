package org.nccl4j.device.cuda;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.device.shm.DuplicateFd;

/**
 * Ranks of this process, one on each GPU, connected through an arena of shareable memory on each,
 * without the engine. One GPU takes all ranks where there are too few of them.
 */
final class GpuRanks implements AutoCloseable {
  final int n;
  final List<CudaDevice> devices = new ArrayList<>();
  final List<CudaKernelCommunicator> communicators = new ArrayList<>();
  final List<CudaStream> streams = new ArrayList<>();
  private final List<CudaShareableMemory> arenas = new ArrayList<>();
  private final List<MulticastObject> multicasts = new ArrayList<>();
  private final ConnectionLayout layout;
  KernelCommunicatorSpec spec; // of the last rank

  GpuRanks(int n, Duration deadline) {
    this(n, deadline, null);
  }

  /** With a layout of the caller's, or null for the device's. */
  GpuRanks(int n, Duration deadline, ConnectionLayout given) {
    this(n, deadline, given, null);
  }

  /** With emulated NVLS, unless its layout is null. */
  GpuRanks(int n, Duration deadline, ConnectionLayout given, NvlsLayout nvlsLayout) {
    this.n = n;
    List<CudaDevice> all = CudaDevices.probe().list();
    for (int rank = 0; rank < n; rank++) {
      devices.add(all.get(rank % all.size()));
    }
    layout = given == null ? devices.get(0).connectionLayout(n) : given;
    for (CudaDevice device : devices) {
      arenas.add(
          CudaShareableMemory.create(
              device, (layout.dataBytes() + ConnectionLayout.CREDIT_BYTES) * n));
    }
    List<Nvls> nvls = nvlsLayout == null ? null : nvls(nvlsLayout);
    List<int[]> rings = List.of(IntStream.range(0, n).toArray());
    for (int rank = 0; rank < n; rank++) {
      List<Connection> sends = new ArrayList<>();
      List<Connection> recvs = new ArrayList<>();
      for (int peer = 0; peer < n; peer++) {
        sends.add(peer == rank ? null : connection(rank, peer, rank));
        recvs.add(peer == rank ? null : connection(peer, rank, rank));
      }
      spec =
          new KernelCommunicatorSpec(
              "test",
              rank,
              n,
              layout,
              sends,
              recvs,
              rings,
              trees(rank),
              1,
              Progress.NONE,
              deadline,
              nvls == null ? null : nvls.get(rank),
              LaunchOptions.PLAIN);
      communicators.add((CudaKernelCommunicator) devices.get(rank).createKernelCommunicator(spec));
      streams.add((CudaStream) devices.get(rank).createStream());
    }
  }

  /** As many ranks are heads as the layout has, the last first. */
  private List<Nvls> nvls(NvlsLayout nvlsLayout) {
    List<Integer> all = IntStream.range(0, n).boxed().toList();
    List<Integer> heads =
        IntStream.range(0, nvlsLayout.nHeads()).map(head -> n - 1 - head).boxed().toList();
    for (int rank : all) {
      MulticastObject.Group group = new MulticastObject.Group(rank, n, nvlsLayout.bytes());
      multicasts.add(devices.get(rank).multicast(MulticastObject.Form.EMULATED, group));
      multicasts.get(rank).create();
    }
    for (int to : all) {
      for (int from : all) {
        if (multicasts.get(to).wants(from)) {
          multicasts.get(to).accept(from, DuplicateFd.of(multicasts.get(from).descriptor()));
        }
      }
    }
    return all.stream().map(rank -> place(nvlsLayout, all, heads, rank)).toList();
  }

  private Nvls place(NvlsLayout nvlsLayout, List<Integer> all, List<Integer> heads, int rank) {
    MulticastObject own = multicasts.get(rank);
    return new Nvls(
        nvlsLayout,
        all,
        heads,
        heads.indexOf(rank),
        own.unicast(),
        own.multicast(),
        List.of(),
        /* machines= */ 1);
  }

  /** The connection from one rank to another, as the view of one of them. */
  private Connection connection(int from, int to, int view) {
    CudaDevice device = devices.get(view);
    DeviceMemory data =
        arenas.get(to).accessFrom(device).slice(from * layout.dataBytes(), layout.dataBytes());
    DeviceMemory credit =
        arenas
            .get(from)
            .accessFrom(device)
            .slice(
                n * layout.dataBytes() + to * ConnectionLayout.CREDIT_BYTES,
                ConnectionLayout.CREDIT_BYTES);
    return new Connection(data, credit);
  }

  /** A chain from the last rank to the first, and a heap-shaped tree. */
  private List<Tree> trees(int rank) {
    List<Integer> down = new ArrayList<>();
    for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < n; child++) {
      down.add(child);
    }
    return List.of(
        new Tree(rank - 1, rank + 1 < n ? List.of(rank + 1) : List.of()),
        new Tree(rank == 0 ? -1 : (rank - 1) / 2, down));
  }

  void synchronize() {
    streams.forEach(CudaStream::synchronize);
  }

  @Override
  public void close() {
    streams.forEach(CudaStream::close);
    communicators.forEach(KernelCommunicator::close);
    multicasts.forEach(MulticastObject::close);
    arenas.forEach(CudaShareableMemory::close);
  }
}
