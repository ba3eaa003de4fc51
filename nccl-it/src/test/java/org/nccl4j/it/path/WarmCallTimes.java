package org.nccl4j.it.path;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;

/**
 * Times warm calls of rank 0 on GPUs in the calling thread, in bursts that are shorter than the
 * queue of a stream, so that no call waits for a GPU. Arguments: the ranks, a GPU each, then "own",
 * "user" (a stream that is wrapped) or "in-place", then the operation, all_reduce if there is none,
 * then "threads" where the other ranks have their bursts at the same time, in threads of their own.
 * The operation sendrecv is a group of a send to the next rank and a receive from the one before.
 * docs/benchmarks/warm-calls.sh runs it with a driver that does nothing.
 */
public final class WarmCallTimes {
  private static final int BURST = 100;
  private static final int ROUNDS = 4000;
  private static final int COUNT = 1024;

  private final List<Communicator> ranks;
  private final String operation;
  private final List<DeviceMemory> from = new ArrayList<>();
  private final List<DeviceMemory> to = new ArrayList<>();
  private final List<DeviceStream> streams = new ArrayList<>();

  /** Threads of the other ranks; none where the calling thread runs them. */
  private final List<Thread> others = new ArrayList<>();

  private final AtomicInteger arrived = new AtomicInteger();

  private WarmCallTimes(int n, String how, String operation) {
    this.operation = operation;
    ranks = Communicator.initAll(new ArrayList<Device>(Devices.cuda().list().subList(0, n)));
    for (Communicator rank : ranks) {
      CudaDevice gpu = (CudaDevice) rank.device();
      from.add(gpu.allocate(4L * COUNT * n));
      to.add(how.equals("in-place") ? from.get(from.size() - 1) : gpu.allocate(4L * COUNT * n));
      CudaStream own = (CudaStream) gpu.createStream();
      streams.add(how.equals("user") ? gpu.wrapStream(own.handle()) : own);
    }
  }

  public static void main(String[] arguments) {
    int n = Integer.parseInt(arguments[0]);
    String operation = arguments.length > 2 ? arguments[2] : "all_reduce";
    WarmCallTimes calls = new WarmCallTimes(n, arguments[1], operation);
    boolean threads = arguments.length > 3 && arguments[3].equals("threads");
    if (threads) {
      calls.startOthers();
    }
    double[] nanos = new double[ROUNDS];
    for (int round = -ROUNDS; round < ROUNDS; round++) {
      double took = calls.round();
      if (round >= 0) {
        nanos[round] = took;
      }
    }
    Arrays.sort(nanos);
    System.out.printf(
        Locale.ROOT,
        "Java %d, %s, %d rank(s)%s, %s: %.0f ns a call (median), %.0f (least), %.1f bytes%n",
        Runtime.version().feature(),
        operation,
        n,
        threads ? " with a thread each" : "",
        arguments[1],
        nanos[ROUNDS / 2],
        nanos[0],
        calls.allocated());
    System.exit(0);
  }

  /** A burst of each rank, and the wait for all; nanoseconds of a call of rank 0. */
  private double round() {
    if (others.isEmpty()) {
      double took = timedBurst();
      for (int rank = 1; rank < ranks.size(); rank++) {
        burst(rank);
      }
      streams.forEach(DeviceStream::synchronize);
      return took;
    }
    meet();
    double took = timedBurst();
    streams.get(0).synchronize();
    meet();
    return took;
  }

  private double timedBurst() {
    long begin = System.nanoTime();
    burst(0);
    return (System.nanoTime() - begin) / (double) BURST;
  }

  /** Gives each other rank a thread, which has its bursts at the same time as rank 0. */
  private void startOthers() {
    for (int rank = 1; rank < ranks.size(); rank++) {
      int mine = rank;
      Thread thread = new Thread(() -> runAlong(mine));
      thread.setDaemon(true);
      others.add(thread);
    }
    others.forEach(Thread::start);
  }

  private void runAlong(int rank) {
    for (int round = -ROUNDS; round < ROUNDS; round++) {
      meet();
      burst(rank);
      streams.get(rank).synchronize();
      meet();
    }
  }

  /** Waits until the threads of all ranks are here; awake, so that they go on at the same time. */
  private void meet() {
    int n = ranks.size();
    int mine = arrived.getAndIncrement();
    while (arrived.get() - mine / n * n < n) {
      Thread.onSpinWait();
    }
  }

  private void burst(int rank) {
    for (int i = 0; i < BURST; i++) {
      call(ranks.get(rank), from.get(rank), to.get(rank), streams.get(rank));
    }
  }

  /** Bytes of the heap that a call of rank 0 allocates. */
  private double allocated() {
    ThreadMXBean threads = ManagementFactory.getPlatformMXBean(ThreadMXBean.class);
    burst(0); // loads what the first reading of the counter needs
    long before = threads.getCurrentThreadAllocatedBytes();
    burst(0);
    return (threads.getCurrentThreadAllocatedBytes() - before) / (double) BURST;
  }

  private void call(Communicator rank, DeviceMemory from, DeviceMemory to, DeviceStream stream) {
    switch (operation) {
      case "all_reduce" -> rank.allReduce(from, to, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
      case "all_gather" -> rank.allGather(from, to, COUNT, DataType.FLOAT32, stream);
      case "alltoall" -> rank.allToAll(from, to, COUNT, DataType.FLOAT32, stream);
      case "gather" -> rank.gather(from, to, COUNT, DataType.FLOAT32, 0, stream);
      case "scatter" -> rank.scatter(from, to, COUNT, DataType.FLOAT32, 0, stream);
      case "sendrecv" -> {
        int n = ranks.size();
        Group.start();
        rank.send(from, COUNT, DataType.FLOAT32, (rank.rank() + 1) % n, stream);
        rank.recv(to, COUNT, DataType.FLOAT32, (rank.rank() + n - 1) % n, stream);
        Group.end();
      }
      default -> throw new IllegalArgumentException(operation);
    }
  }
}
