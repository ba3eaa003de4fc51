package org.nccl4j.device.cuda;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Times kernels on all GPUs, a thread for each, after checking their results: microseconds an
 * operation, launches back to back. Arguments: ranks, most bytes, then any of "collective algorithm
 * protocol channels[,channels...]" groups. -Dfirst=BYTES is the least size,
 * -Dslots=LAYOUT[:LAYOUT...] tries several layouts.
 */
final class KernelTimes {
  private static final int PERIOD = 1 << 16; // elements after which the data repeat

  private final int n;
  private GpuRanks ranks;
  private final ExecutorService threads;
  private final List<DeviceMemory> sends = new ArrayList<>();
  private final List<DeviceMemory> recvs = new ArrayList<>();
  private volatile double hostMicros; // of the last measurement

  private KernelTimes(int n, long most) {
    this.n = n;
    threads = Executors.newFixedThreadPool(n);
    List<CudaDevice> devices = CudaDevices.probe().list();
    for (int rank = 0; rank < n; rank++) {
      CudaDevice device = devices.get(rank % devices.size());
      sends.add(device.allocate(most));
      recvs.add(device.allocate(most));
      fill(rank);
    }
  }

  /** All that is asked for, with a layout, or null for the device's. */
  private void tables(String slots, String[] arguments, long most) throws Exception {
    ranks = new GpuRanks(n, Duration.ofSeconds(5), layout(slots), nvls(n));
    if (slots != null) {
      System.out.println("slots " + slots);
    }
    for (int i = 2; i + 3 < arguments.length; i += 4) {
      for (String channels : arguments[i + 3].split(",")) {
        table(
            arguments[i].toUpperCase(Locale.ROOT),
            arguments[i + 1].toUpperCase(Locale.ROOT),
            Protocol.valueOf(arguments[i + 2].toUpperCase(Locale.ROOT)),
            Integer.parseInt(channels),
            most);
      }
    }
    ranks.close();
  }

  /** Slots of a channel in KiB: "LL,LL128,Simple". */
  private static ConnectionLayout layout(String slots) {
    if (slots == null) {
      return null;
    }
    String[] kib = slots.split(",");
    int unit = ConnectionLayout.CHANNELS << 10;
    return new ConnectionLayout(
        unit * Integer.parseInt(kib[0]),
        unit * Integer.parseInt(kib[1]),
        unit * Integer.parseInt(kib[2]));
  }

  /** Emulated NVLS from -Dnvls=channels,KiB of a chunk; else without. */
  private static NvlsLayout nvls(int n) {
    String nvls = System.getProperty("nvls");
    if (nvls == null) {
      return null;
    }
    String[] sizes = nvls.split(",");
    return new NvlsLayout(n, Integer.parseInt(sizes[0]), Integer.parseInt(sizes[1]) << 10);
  }

  public static void main(String[] arguments) throws Exception {
    int n = Integer.parseInt(arguments[0]);
    long most = Long.parseLong(arguments[1]);
    creation(n);
    KernelTimes times = new KernelTimes(n, most);
    String slots = System.getProperty("slots");
    for (String each : slots == null ? new String[] {null} : slots.split(":")) {
      times.tables(each, arguments, most);
    }
    System.exit(0);
  }

  /** The time to connect ranks and make their communicators, first and later. */
  private static void creation(int n) {
    CudaDevice device = CudaDevices.probe().device(0);
    for (int round = 0; round < 3; round++) {
      long before = device.memoryInfo()[0];
      long start = System.nanoTime();
      GpuRanks ranks = new GpuRanks(n, Duration.ofSeconds(5));
      long made = System.nanoTime();
      long after = device.memoryInfo()[0];
      ranks.close();
      System.out.println(
          "%d ranks made in %.1f ms with %d MiB on device 0, closed in %.1f ms"
              .formatted(
                  n,
                  (made - start) / 1e6,
                  (before - after) >> 20,
                  (System.nanoTime() - made) / 1e6));
    }
    long start = System.nanoTime();
    device
        .kernels()
        .collective(Operation.ALL_REDUCE, DataType.FLOAT32, Algorithm.RING, Protocol.SIMPLE);
    System.out.println(
        "float kernels loaded in %.1f ms".formatted((System.nanoTime() - start) / 1e6));
  }

  private void table(String what, String how, Protocol protocol, int channels, long most)
      throws Exception {
    StringBuilder line =
        new StringBuilder(
            "%s %s %s %d channels, %d GPUs:".formatted(what, how, protocol, channels, ranks.n));
    long limit = protocol == Protocol.SIMPLE ? most : Math.min(most, 8 << 20);
    long first = Long.getLong("first", protocol == Protocol.SIMPLE ? 32 << 10 : 128);
    for (long bytes = first; bytes <= limit; bytes *= 4) {
      List<KernelPlan> plans = new ArrayList<>();
      for (int rank = 0; rank < ranks.n; rank++) {
        plans.add(plan(what, how, protocol, channels, bytes, rank));
      }
      String wrong = check(plans, what, bytes);
      double micros = wrong != null ? -1 : time(plans, bytes);
      double factor =
          switch (what) {
            case "ALL_REDUCE" -> 2.0 * (ranks.n - 1) / ranks.n;
            case "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL" -> (ranks.n - 1.0) / ranks.n;
            default -> 1;
          };
      line.append(
          wrong != null
              ? " %d:WRONG(%s)".formatted(bytes, wrong)
              : bytes < 1 << 20
                  ? " %d:%.2f".formatted(bytes, micros)
                  : " %dM:%.1f(%.0f)"
                      .formatted(bytes >> 20, micros, bytes * factor / micros / 1e3));
      if (wrong != null) {
        break;
      }
    }
    System.out.println(line + " (host %.2f us a launch)".formatted(hostMicros));
  }

  private KernelPlan plan(
      String what, String how, Protocol protocol, int channels, long bytes, int rank) {
    var communicator = ranks.communicators.get(rank);
    int n = ranks.n;
    if (what.equals("SEND_RECV") || what.equals("ALL_TO_ALL")) {
      List<P2pWork> works = new ArrayList<>();
      boolean all = what.equals("ALL_TO_ALL");
      long part = all ? bytes / n : bytes;
      for (int d = all ? 0 : 1; d < (all ? n : 2); d++) {
        int to = (rank + d) % n;
        int from = (rank + n - d) % n;
        works.add(new P2pWork(P2pWork.Kind.SEND, to, null, all ? to * part : 0, part, protocol));
        works.add(
            new P2pWork(P2pWork.Kind.RECV, from, null, all ? from * part : 0, part, protocol));
      }
      return communicator.prepare(works);
    }
    Operation operation = Operation.valueOf(what);
    boolean spread = operation == Operation.ALL_GATHER || operation == Operation.REDUCE_SCATTER;
    return communicator.prepare(
        new CollectiveWork(
            operation,
            Algorithm.valueOf(how),
            protocol,
            DataType.FLOAT32,
            RedOp.SUM,
            0,
            bytes / 4 / (spread ? n : 1),
            channels,
            Integer.MAX_VALUE));
  }

  /** A rank's element at a place. */
  private static float value(int rank, long place) {
    int x = (int) (place % PERIOD);
    return (x * 31 + rank * 17 + (x >> 7)) % 1009;
  }

  private void fill(int rank) {
    ByteBuffer block = ByteBuffer.allocateDirect(4 * PERIOD).order(ByteOrder.nativeOrder());
    for (int i = 0; i < PERIOD; i++) {
      block.putFloat(4 * i, value(rank, i));
    }
    DeviceMemory send = sends.get(rank);
    for (long at = 0; at < send.size(); at += block.capacity()) {
      int size = (int) Math.min(block.capacity(), send.size() - at);
      send.write(at, block.duplicate().position(0).limit(size));
    }
  }

  private String check(List<KernelPlan> plans, String what, long bytes) {
    for (int rank = 0; rank < ranks.n; rank++) {
      recvs.get(rank).fill((byte) 0xA5);
    }
    launchAll(plans, 1);
    ranks.synchronize();
    for (int rank = 0; rank < ranks.n; rank++) {
      long received = what.equals("REDUCE_SCATTER") ? bytes / ranks.n : bytes;
      if (what.equals("REDUCE") && rank != 0) {
        continue;
      }
      long step = Math.max(1 << 20, received / 16 / 4 * 4);
      for (long at = 0; at < received; at += step) {
        int size = (int) Math.min(1 << 20, received - at);
        ByteBuffer got = ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
        recvs.get(rank).read(at, got);
        for (int i = 0; i < size / 4; i++) {
          if (got.getFloat(4 * i) != expected(what, rank, at / 4 + i, bytes / 4)) {
            return "rank %d element %d is %s, not %s"
                .formatted(
                    rank,
                    at / 4 + i,
                    got.getFloat(4 * i),
                    expected(what, rank, at / 4 + i, bytes / 4));
          }
        }
      }
    }
    return null;
  }

  private float expected(String what, int rank, long place, long count) {
    int n = ranks.n;
    long part = count / n;
    return switch (what) {
      case "BROADCAST" -> value(0, place);
      case "ALL_GATHER" -> value((int) (place / part), place % part);
      case "SEND_RECV" -> value((rank + n - 1) % n, place);
      case "ALL_TO_ALL" -> value((int) (place / part), rank * part + place % part);
      default -> {
        long at = what.equals("REDUCE_SCATTER") ? rank * part + place : place;
        float sum = 0;
        for (int from = 0; from < n; from++) {
          sum += value(from, at);
        }
        yield sum;
      }
    };
  }

  private void launchAll(List<KernelPlan> plans, int times) {
    for (int i = 0; i < times; i++) {
      for (int rank = 0; rank < ranks.n; rank++) {
        launch(plans, rank);
      }
    }
  }

  private void launch(List<KernelPlan> plans, int rank) {
    ranks
        .communicators
        .get(rank)
        .launch(plans.get(rank), sends.get(rank), recvs.get(rank), ranks.streams.get(rank));
  }

  /** Ten operations in a CUDA graph, with -Dgraph=true. */
  private List<CudaGraph> capture(List<KernelPlan> plans) {
    List<CudaGraph> graphs = new ArrayList<>();
    for (int rank = 0; rank < ranks.n; rank++) {
      ranks.streams.get(rank).beginCapture();
      for (int i = 0; i < 10; i++) {
        launch(plans, rank);
      }
      graphs.add(ranks.streams.get(rank).endCapture());
    }
    return graphs;
  }

  private double time(List<KernelPlan> plans, long bytes) throws Exception {
    boolean graph = Boolean.getBoolean("graph");
    List<CudaGraph> graphs = graph ? capture(plans) : List.of();
    int iterations = bytes <= 1 << 20 ? 200 : bytes <= 64 << 20 ? 40 : 10;
    double best = Double.MAX_VALUE;
    for (int round = 0; round < 3; round++) {
      CyclicBarrier barrier = new CyclicBarrier(ranks.n);
      List<Callable<Double>> tasks = new ArrayList<>();
      for (int rank = 0; rank < ranks.n; rank++) {
        int mine = rank;
        tasks.add(
            () -> {
              for (int i = 0; i < 5; i++) {
                launch(plans, mine);
              }
              ranks.streams.get(mine).synchronize();
              barrier.await();
              long start = System.nanoTime();
              for (int i = 0; i < (graph ? iterations / 10 : iterations); i++) {
                if (graph) {
                  graphs.get(mine).launch(ranks.streams.get(mine));
                } else {
                  launch(plans, mine);
                }
              }
              hostMicros = (System.nanoTime() - start) / 1e3 / iterations;
              ranks.streams.get(mine).synchronize();
              return (System.nanoTime() - start) / 1e3 / iterations;
            });
      }
      double worst = 0;
      for (Future<Double> future : threads.invokeAll(tasks)) {
        worst = Math.max(worst, future.get());
      }
      best = Math.min(best, worst);
    }
    return best;
  }
}
