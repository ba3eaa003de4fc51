package org.nccl4j.device.cuda;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.shm.DuplicateFd;

/**
 * Ranks of this process, one on each GPU, connected through an arena of shareable memory on each,
 * without the engine. One GPU takes all ranks where there are too few of them.
 */
public final class GpuRanks implements AutoCloseable {
  public final int n;
  public final List<CudaDevice> devices = new ArrayList<>();
  final List<CudaKernelCommunicator> communicators = new ArrayList<>();
  public final List<CudaStream> streams = new ArrayList<>();
  private final List<CudaShareableMemory> arenas = new ArrayList<>();
  private final List<MulticastObject> multicasts = new ArrayList<>();
  private final ConnectionLayout layout;
  public KernelCommunicatorSpec spec; // of the last rank

  public GpuRanks(int n, Duration deadline) {
    this(n, deadline, null);
  }

  /** With a layout of the caller's, or null for the device's. */
  public GpuRanks(int n, Duration deadline, ConnectionLayout given) {
    this(n, deadline, given, null);
  }

  /** With emulated NVLS, unless its layout is null. */
  public GpuRanks(int n, Duration deadline, ConnectionLayout given, NvlsLayout nvlsLayout) {
    this("a".repeat(n), deadline, given, nvlsLayout);
  }

  /**
   * With emulated NVLS of several machines.
   *
   * @param hosts a letter for each rank: those with the same are on one machine
   */
  public GpuRanks(String hosts, Duration deadline, ConnectionLayout given, NvlsLayout nvlsLayout) {
    this(hosts, deadline, given, nvlsLayout, LaunchOptions.PLAIN);
  }

  /** On several machines, as kernels know them; all are connected as on one. */
  public GpuRanks(String hosts, Duration deadline) {
    this(hosts, deadline, null, null);
  }

  /** With options of launches. */
  public GpuRanks(int n, LaunchOptions options, Duration deadline) {
    this("a".repeat(n), deadline, null, null, options);
  }

  private GpuRanks(
      String hosts,
      Duration deadline,
      ConnectionLayout given,
      NvlsLayout nvlsLayout,
      LaunchOptions options) {
    this.n = hosts.length();
    List<CudaDevice> all = CudaDevices.probe().list();
    for (int rank = 0; rank < n; rank++) {
      devices.add(all.get(rank % all.size()));
    }
    layout = given == null ? devices.get(0).connectionLayout(n) : given;
    for (CudaDevice device : devices) {
      arenas.add(
          CudaShareableMemory.create(
              device.gpu(), (layout.dataBytes() + ConnectionLayout.CREDIT_BYTES) * n));
    }
    List<Nvls> nvls = nvlsLayout == null ? null : nvls(nvlsLayout, hosts);
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
              machines(hosts),
              /* carried= */ false,
              AllowedCores.ofThisThread(n),
              Progress.NONE,
              deadline,
              nvls == null ? null : nvls.get(rank),
              options,
              PeerConnector.NONE,
              SingleCopy.OFF);
      communicators.add((CudaKernelCommunicator) devices.get(rank).createKernelCommunicator(spec));
      streams.add((CudaStream) devices.get(rank).createStream());
    }
  }

  /** The open communicators of a rank's device. */
  public int communicatorsOf(int rank) {
    return devices.get(rank).communicators().get();
  }

  /** Sets the number of a rank's launches so far that had copy engines beside them. */
  public void setEngineLaunches(int rank, int last) {
    try {
      Object launches = field(field(communicators.get(rank), "direct"), "launches");
      Field number = launches.getClass().getDeclaredField("last");
      number.setAccessible(true);
      number.setInt(launches, last);
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  private static Object field(Object owner, String name) throws ReflectiveOperationException {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(owner);
  }

  /** The ranks of each machine, by their letters. */
  private static List<List<Integer>> machines(String hosts) {
    return hosts
        .chars()
        .distinct()
        .mapToObj(
            host ->
                IntStream.range(0, hosts.length())
                    .filter(rank -> hosts.charAt(rank) == host)
                    .boxed()
                    .toList())
        .toList();
  }

  /** As many ranks of each machine are heads as the layout has, the last first. */
  private List<Nvls> nvls(NvlsLayout nvlsLayout, String hosts) {
    List<List<Integer>> machines = machines(hosts);
    for (int rank = 0; rank < n; rank++) {
      int self = rank;
      List<Integer> members =
          machines.stream().filter(each -> each.contains(self)).findFirst().orElseThrow();
      MulticastObject.Group group =
          new MulticastObject.Group(members.indexOf(rank), members.size(), nvlsLayout.bytes());
      multicasts.add(devices.get(rank).multicast(MulticastObject.Form.EMULATED, group));
      multicasts.get(rank).create();
    }
    List<Nvls> places = new ArrayList<>(Collections.nCopies(n, null));
    for (List<Integer> members : machines) {
      for (int to : members) {
        for (int from = 0; from < members.size(); from++) {
          if (multicasts.get(to).wants(from)) {
            int descriptor = multicasts.get(members.get(from)).descriptor();
            multicasts.get(to).accept(from, DuplicateFd.of(descriptor));
          }
        }
      }
      for (int rank : members) {
        places.set(rank, place(nvlsLayout, machines, members, rank));
      }
    }
    return places;
  }

  private Nvls place(
      NvlsLayout nvlsLayout, List<List<Integer>> machines, List<Integer> members, int rank) {
    int heads = nvlsLayout.nHeads();
    int headRank = members.size() - 1 - members.indexOf(rank);
    MulticastObject own = multicasts.get(rank);
    return new Nvls(
        nvlsLayout,
        members,
        IntStream.range(0, heads).mapToObj(head -> members.get(members.size() - 1 - head)).toList(),
        headRank < heads ? headRank : -1,
        own.unicast(),
        own.multicast(),
        machines.size() > 1 && headRank < heads ? between(machines, members, headRank) : List.of(),
        machines.size(),
        /* combinesBytes= */ false);
  }

  /**
   * A heap-shaped tree of the heads of a number, and a chain of them from the last to the first.
   */
  private static List<Tree> between(
      List<List<Integer>> machines, List<Integer> members, int headRank) {
    List<Integer> heads =
        machines.stream().map(each -> each.get(each.size() - 1 - headRank)).toList();
    int place = machines.indexOf(members);
    List<Integer> down = new ArrayList<>();
    for (int child = 2 * place + 1; child <= 2 * place + 2 && child < heads.size(); child++) {
      down.add(heads.get(child));
    }
    int next = place + 1;
    return List.of(
        new Tree(place == 0 ? -1 : heads.get((place - 1) / 2), down),
        new Tree(
            next < heads.size() ? heads.get(next) : -1,
            place == 0 ? List.of() : List.of(heads.get(place - 1))));
  }

  /** The connection from one rank to another, as the view of one of them. */
  private Connection connection(int from, int to, int view) {
    CudaDevice device = devices.get(view);
    DeviceMemory data =
        arenas
            .get(to)
            .accessFrom(device.gpu())
            .slice(from * layout.dataBytes(), layout.dataBytes());
    DeviceMemory credit =
        arenas
            .get(from)
            .accessFrom(device.gpu())
            .slice(
                n * layout.dataBytes() + to * ConnectionLayout.CREDIT_BYTES,
                ConnectionLayout.CREDIT_BYTES);
    return new Connection(data, credit);
  }

  /** A chain from the last rank to the first, a heap-shaped tree, and one of four children each. */
  private List<Tree> trees(int rank) {
    return List.of(heap(rank, 1), heap(rank, 2), heap(rank, 4));
  }

  private Tree heap(int rank, int children) {
    IntUnaryOperator parents = of -> of == 0 ? -1 : (of - 1) / children;
    int first = children * rank + 1;
    List<Integer> down =
        IntStream.range(first, first + children).filter(c -> c < n).boxed().toList();
    return new Tree(parents.applyAsInt(rank), down, parents);
  }

  public void synchronize() {
    streams.forEach(CudaStream::synchronize);
  }

  /** The ranks' communicators. */
  public List<KernelCommunicator> communicators() {
    return List.copyOf(communicators);
  }

  @Override
  public void close() {
    streams.forEach(CudaStream::close);
    communicators.forEach(KernelCommunicator::close);
    multicasts.forEach(MulticastObject::close);
    arenas.forEach(CudaShareableMemory::close);
  }
}
