package org.nccl4j.device.host.kernel;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.IntUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.kernel.nvls.NvlsConnection;
import org.nccl4j.device.host.kernel.protocol.ConnectionEnd;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.symmetric.MulticastMemory;

/** Ranks of this process, connected by plain memory, without the engine. */
final class LocalRanks implements AutoCloseable {
  /** With more, only those at distances of powers of two are connected with each other. */
  private static final int MOST_WITH_ALL = 40;

  final HostDevice device = HostDevice.instance();
  final int n;
  final ConnectionLayout layout;
  final List<KernelCommunicator> communicators = new ArrayList<>();
  final List<DeviceStream> streams = new ArrayList<>();
  private final List<DeviceMemory> memories = new ArrayList<>();
  private final Connection[][] fromTo;

  /** Ranks in the order of the ring and of the trees. */
  private final int[] order;

  LocalRanks(int n, ConnectionLayout layout, Duration deadline) {
    this(n, layout, deadline, 0);
  }

  /** With NVLS in chunks of so many bytes, unless that is 0. */
  LocalRanks(int n, ConnectionLayout layout, Duration deadline, int nvlsChunkBytes) {
    this(layout, deadline, nvlsChunkBytes, List.of(IntStream.range(0, n).boxed().toList()));
  }

  /** Whose receivers read some steps from the senders' buffers. */
  LocalRanks(int n, ConnectionLayout layout, Duration deadline, SingleCopy singleCopy) {
    this(
        layout,
        deadline,
        0,
        List.of(IntStream.range(0, n).boxed().toList()),
        singleCopy,
        IntStream.range(0, n).toArray());
  }

  /** Whose ring and trees have the ranks in some order. */
  LocalRanks(ConnectionLayout layout, Duration deadline, int[] order) {
    this(
        layout,
        deadline,
        0,
        List.of(IntStream.range(0, order.length).boxed().toList()),
        SingleCopy.OFF,
        order);
  }

  /** As if on several machines, whose ranks are given. */
  LocalRanks(
      ConnectionLayout layout,
      Duration deadline,
      int nvlsChunkBytes,
      List<List<Integer>> machines) {
    this(layout, deadline, nvlsChunkBytes, machines, SingleCopy.OFF, inOrder(machines));
  }

  /** The same without NVLS. */
  LocalRanks(ConnectionLayout layout, List<List<Integer>> machines, SingleCopy singleCopy) {
    this(layout, Duration.ofSeconds(30), 0, machines, singleCopy, inOrder(machines));
  }

  private static int[] inOrder(List<List<Integer>> machines) {
    return IntStream.range(0, machines.stream().mapToInt(List::size).sum()).toArray();
  }

  private LocalRanks(
      ConnectionLayout layout,
      Duration deadline,
      int nvlsChunkBytes,
      List<List<Integer>> machines,
      SingleCopy singleCopy,
      int[] order) {
    this.n = order.length;
    this.order = order;
    this.layout = layout;
    this.fromTo = new Connection[n][n];
    for (int from = 0; from < n; from++) {
      for (int to = 0; to < n; to++) {
        fromTo[from][to] =
            from == to || n > MOST_WITH_ALL && !isPowerOfTwo(to - from) && !isPowerOfTwo(from - to)
                ? null
                : new Connection(memory(layout.dataBytes()), memory(ConnectionLayout.CREDIT_BYTES));
      }
    }
    List<Nvls> nvls = nvlsChunkBytes == 0 ? null : nvls(nvlsChunkBytes, machines);
    for (int rank = 0; rank < n; rank++) {
      List<Connection> sends = new ArrayList<>();
      List<Connection> recvs = new ArrayList<>();
      for (int peer = 0; peer < n; peer++) {
        sends.add(isLate(rank, peer) ? null : fromTo[rank][peer]);
        recvs.add(isLate(rank, peer) ? null : fromTo[peer][rank]);
      }
      int self = rank;
      PeerConnector connector =
          peers ->
              peers.stream()
                  .collect(
                      Collectors.toMap(
                          peer -> peer,
                          peer -> new PeerConnector.Pair(fromTo[self][peer], fromTo[peer][self])));
      communicators.add(
          device.createKernelCommunicator(
              new KernelCommunicatorSpec(
                  "test",
                  rank,
                  n,
                  layout,
                  sends,
                  recvs,
                  List.of(order),
                  trees(rank),
                  machines,
                  /* carried= */ false,
                  AllowedCores.ofThisThread(n),
                  Progress.NONE,
                  deadline,
                  nvls == null ? null : nvls.get(rank),
                  LaunchOptions.PLAIN,
                  connector,
                  singleCopy)));
      streams.add(device.createStream());
    }
  }

  /** True of ranks that are not neighbours: their connection is made when it is first needed. */
  private boolean isLate(int rank, int peer) {
    int distance = Math.floorMod(rank - peer, n);
    return distance > 1 && distance < n - 1;
  }

  /** As many ranks of each machine are heads as the smallest has; the last come first. */
  private List<Nvls> nvls(int chunkBytes, List<List<Integer>> machines) {
    int nHeads = machines.stream().mapToInt(List::size).min().orElseThrow();
    NvlsLayout nvlsLayout = new NvlsLayout(nHeads, 1, chunkBytes);
    List<List<Integer>> heads =
        machines.stream().map(m -> lastFirst(m).subList(0, nHeads)).toList();
    Nvls[] places = new Nvls[n];
    for (int machine = 0; machine < machines.size(); machine++) {
      List<Integer> members = machines.get(machine);
      List<DeviceMemory> views = members.stream().map(m -> memory(nvlsLayout.bytes())).toList();
      MulticastMemory all = new MulticastMemory(/* emulated= */ true, views);
      for (int member = 0; member < members.size(); member++) {
        int headRank = heads.get(machine).indexOf(members.get(member));
        places[members.get(member)] =
            new Nvls(
                nvlsLayout,
                members,
                heads.get(machine),
                headRank,
                views.get(member),
                all,
                headRank < 0 || machines.size() == 1
                    ? List.of()
                    : headTrees(machine, heads.stream().map(h -> h.get(headRank)).toList()),
                machines.size(),
                /* combinesBytes= */ false);
      }
    }
    return List.of(places);
  }

  private static List<Integer> lastFirst(List<Integer> ranks) {
    List<Integer> reversed = new ArrayList<>(ranks);
    Collections.reverse(reversed);
    return reversed;
  }

  /** A chain from the first machine's head, and one from the last's. */
  private static List<Tree> headTrees(int machine, List<Integer> heads) {
    Integer before = machine == 0 ? null : heads.get(machine - 1);
    Integer after = machine + 1 == heads.size() ? null : heads.get(machine + 1);
    return List.of(chain(before, after), chain(after, before));
  }

  private static Tree chain(Integer up, Integer down) {
    return new Tree(up == null ? -1 : up, down == null ? List.of() : List.of(down));
  }

  /** As if so many steps had gone on every connection, and all had been taken; before any work. */
  void goOnAt(long step) {
    for (int rank = 0; rank < n; rank++) {
      KernelCommunicator communicator = communicators.get(rank);
      ConnectionTable ends = (ConnectionTable) field(communicator, "ends");
      for (SendEnd end : (SendEnd[]) field(ends, "sends")) {
        goOnAt(end, step);
      }
      for (RecvEnd end : (RecvEnd[]) field(ends, "recvs")) {
        goOnAt(end, step);
      }
      for (int peer = 0; peer < n; peer++) {
        if (isLate(rank, peer) && fromTo[rank][peer] != null) {
          ((long[]) field(ends, "sendSteps"))[peer] = step;
          ((long[]) field(ends, "recvSteps"))[peer] = step;
          goOnAt(fromTo[rank][peer], step);
        }
      }
      Object nvls = field(field(field(communicator, "kernels"), "context"), "nvls");
      if (nvls != null) {
        goOnAt((NvlsConnection[]) field(nvls, "up"), step);
        goOnAt((NvlsConnection[]) field(nvls, "down"), step);
      }
    }
  }

  private static void goOnAt(ConnectionEnd end, long step) {
    if (end != null) {
      AtomicWords.storeRelease(end.memory(), ConnectionLayout.TAIL, step);
      AtomicWords.storeRelease(end.creditMemory(), ConnectionLayout.HEAD, step);
      end.goOnAt(step);
    }
  }

  private static void goOnAt(Connection connection, long step) {
    AtomicWords.storeRelease(HostMemory.of(connection.data()), ConnectionLayout.TAIL, step);
    AtomicWords.storeRelease(HostMemory.of(connection.credit()), ConnectionLayout.HEAD, step);
  }

  private static void goOnAt(NvlsConnection[] connections, long step) {
    for (NvlsConnection connection : connections) {
      HostMemory own = (HostMemory) field(connection, "own");
      NvlsLayout layout = (NvlsLayout) field(connection, "layout");
      long base = (long) field(connection, "base");
      AtomicWords.storeRelease(own, base + layout.head(), step);
      AtomicWords.storeRelease(own, base + layout.tail(), step);
      set(connection, "filled", step);
      set(connection, "emptied", step);
    }
  }

  /** A field that only tests access from outside. */
  static Object field(Object of, String name) {
    try {
      return declared(of, name).get(of);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError(name, e);
    }
  }

  static void set(Object of, String name, long value) {
    try {
      declared(of, name).setLong(of, value);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError(name, e);
    }
  }

  private static Field declared(Object of, String name) throws ReflectiveOperationException {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private boolean isPowerOfTwo(int places) {
    return Integer.bitCount(Math.floorMod(places, n)) == 1;
  }

  private DeviceMemory memory(long bytes) {
    DeviceMemory memory = device.allocate(bytes);
    memories.add(memory);
    return memory;
  }

  /** A chain from the last place to the first, and a heap-shaped binary tree. */
  private List<Tree> trees(int rank) {
    int place = place(rank);
    return List.of(
        tree(rank, of -> of - 1, place + 1, place + 1),
        tree(rank, LocalRanks::parent, 2 * place + 1, 2 * place + 2));
  }

  private Tree tree(int rank, IntUnaryOperator parents, int firstChild, int lastChild) {
    IntUnaryOperator parent =
        of -> {
          int place = parents.applyAsInt(place(of));
          return place < 0 ? -1 : order[place];
        };
    List<Integer> down =
        IntStream.range(firstChild, Math.min(lastChild + 1, n)).map(p -> order[p]).boxed().toList();
    return new Tree(parent.applyAsInt(rank), down, parent);
  }

  private int place(int rank) {
    return IntStream.range(0, n).filter(place -> order[place] == rank).findFirst().orElseThrow();
  }

  private static int parent(int place) {
    return place == 0 ? -1 : (place - 1) / 2;
  }

  @Override
  public void close() {
    streams.forEach(DeviceStream::close);
    communicators.forEach(KernelCommunicator::close);
    memories.forEach(DeviceMemory::close);
  }
}
