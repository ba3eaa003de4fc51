package org.nccl4j.it.nvls;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Stream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.support.Patience;

/**
 * A program of very many ranks that say they are on hosts of two fake GPUs each: collectives, sends
 * to ranks that are no neighbours, also in graphs, puts, and splits. Prints how many sockets there
 * are.
 */
final class LateGpuRanks {
  private static final int COUNT = 1000;
  private static final int SPLIT = 4;
  private static final long PATIENCE_NANOS = 300_000_000_000L;
  private static final long SETTLING_NANOS = 50_000_000;

  private LateGpuRanks() {}

  /** A rank's communicator, buffers and stream. */
  private record Rank(Communicator comm, DeviceMemory send, DeviceMemory recv, CudaStream stream) {
    static Rank of(Communicator comm) {
      return new Rank(
          comm,
          comm.device().allocate(4L * COUNT),
          comm.device().allocate(4L * COUNT),
          (CudaStream) comm.device().createStream());
    }

    /** Sends to the rank at a distance, and receives from the one as far behind. */
    void exchange(int distance) {
      int n = comm.nRanks();
      int rank = comm.rank();
      comm.send(send, COUNT, DataType.FLOAT32, (rank + distance) % n, stream);
      comm.recv(recv, COUNT, DataType.FLOAT32, (rank + n - distance) % n, stream);
    }

    void close() {
      comm.close();
      send.close();
      recv.close();
      stream.close();
    }
  }

  /** Argument: the number of ranks. */
  public static void main(String[] arguments) throws Exception {
    int n = Integer.parseInt(arguments[0]);
    long before = sockets();
    List<Rank> ranks = make(n).stream().map(Rank::of).toList();
    System.out.println("made " + (sockets() - before));
    for (Rank rank : ranks) {
      rank.comm.allReduce(rank.send, rank.recv, COUNT, DataType.FLOAT32, RedOp.SUM, rank.stream);
    }
    System.out.println("reduced " + (sockets() - before));
    Group.run(() -> ranks.forEach(rank -> rank.exchange(n / 2)));
    System.out.println("sent " + (sockets() - before));
    Group.run(() -> ranks.forEach(rank -> rank.exchange(n / 2)));
    System.out.println("again " + (sockets() - before));
    capture(ranks.get(0), ranks.get(n / 2 - 5));
    System.out.println("captured " + (sockets() - before));
    put(ranks, before);
    List<Communicator> parts = split(ranks);
    System.out.println("split into " + parts.get(0).nRanks());
    for (int rank = 0; rank < n; rank++) {
      Rank of = ranks.get(rank);
      parts.get(rank).allReduce(of.send, of.recv, COUNT, DataType.FLOAT32, RedOp.SUM, of.stream);
    }
    parts.forEach(Communicator::close);
    ranks.forEach(Rank::close);
    System.out.println("left " + (sockets() - before));
  }

  /** A message from one rank to another, in a graph. */
  private static void capture(Rank from, Rank to) {
    List<Rank> both = List.of(from, to);
    both.forEach(rank -> rank.stream.beginCapture());
    from.comm.send(from.send, COUNT, DataType.FLOAT32, to.comm.rank(), from.stream);
    to.comm.recv(to.recv, COUNT, DataType.FLOAT32, from.comm.rank(), to.stream);
    List<CudaGraph> graphs = both.stream().map(rank -> rank.stream.endCapture()).toList();
    graphs.forEach(CudaGraph::close);
  }

  /** Each rank of the first half puts its number into the window of one of the second half. */
  private static void put(List<Rank> ranks, long before) throws IOException {
    int half = ranks.size() / 2;
    List<DeviceMemory> memories =
        ranks.stream().map(rank -> ((CudaDevice) rank.comm.device()).memAlloc(8)).toList();
    List<Window> windows =
        onThreads(ranks, rank -> rank.comm.registerWindow(memories.get(rank.comm.rank())));
    System.out.println("registered " + (sockets() - before));
    for (int rank = 0; rank < half; rank++) {
      Rank from = ranks.get(rank);
      from.send.write(0, ByteBuffer.allocate(8).putLong(0, rank + 1));
      Window window = windows.get(rank);
      from.comm.putSignal(from.send, 8, DataType.INT8, rank + half, window, 0, from.stream);
    }
    for (int rank = half; rank < 2 * half; rank++) {
      Rank to = ranks.get(rank);
      to.comm.waitSignal(Map.of(rank - half, 1), to.stream);
      to.stream.synchronize();
      ByteBuffer come = ByteBuffer.allocate(8);
      memories.get(rank).read(0, come);
      if (come.getLong(0) != rank - half + 1) {
        throw new AssertionError("rank %d has %d".formatted(rank, come.getLong(0)));
      }
    }
    System.out.println("put " + (sockets() - before));
    onThreads(
        ranks,
        rank -> {
          rank.comm.deregisterWindowOnAllRanks(windows.get(rank.comm.rank()));
          return rank;
        });
    memories.forEach(DeviceMemory::close);
  }

  private static List<Communicator> make(int n) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_SOCKET_NTHREADS", "0") // one socket for a pair
            .with("NCCL_NCHANNELS_PER_NET_PEER", "1")
            .with("NCCL_P2P_DISABLE", "1");
    UniqueId id = UniqueId.create(config);
    List<? extends Device> devices = Devices.cuda().list();
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      joining.add(
          Communicator.initRankAsync(
              n,
              id,
              rank,
              devices.get(rank % devices.size()),
              config.with("NCCL_HOSTID", "host " + rank / devices.size())));
    }
    return joining.stream().map(CompletableFuture::join).toList();
  }

  private static List<Communicator> split(List<Rank> ranks) {
    return onThreads(ranks, rank -> rank.comm.split(rank.comm.rank() / SPLIT, 0).orElseThrow());
  }

  /** Each rank's part of a call of all, on a thread of its own. */
  private static <T> List<T> onThreads(List<Rank> ranks, Function<Rank, T> call) {
    return ranks.stream()
        .map(
            rank ->
                CompletableFuture.supplyAsync(
                    () -> call.apply(rank), task -> new Thread(task).start()))
        .toList()
        .stream()
        .map(CompletableFuture::join)
        .toList();
  }

  /** Sockets that this process has open when no more are being closed: those of ended calls are. */
  private static long sockets() throws IOException {
    long end = System.nanoTime() + PATIENCE_NANOS;
    long last = -1;
    int same = 0;
    while (same < 3 && System.nanoTime() < end) {
      Patience.sleep(SETTLING_NANOS);
      long now = openSockets();
      same = now == last ? same + 1 : 0;
      last = now;
    }
    return last;
  }

  private static long openSockets() throws IOException {
    long count = 0;
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
      for (Path descriptor : descriptors.toList()) {
        try {
          count += Files.readSymbolicLink(descriptor).toString().startsWith("socket:") ? 1 : 0;
        } catch (IOException e) {
          // It was closed meanwhile.
        }
      }
    }
    return count;
  }
}
