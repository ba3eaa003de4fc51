package org.nccl4j.it.perf;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.ChosenAlgorithm;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.api.plan.cost.CostPoints;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.rank.RankThreads;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Times of collectives by each way that the devices have, among ranks that are threads of this
 * process and whose buffers are windows; or among ranks of several processes, of which this one has
 * one or some, and whose buffers are no windows.
 */
final class AlgorithmTimes implements AutoCloseable {
  private static final int WARM_UP = 10;
  private static final int ROUNDS = 5;
  private static final double ROUND_MICROSECONDS = 4000;
  private static final int MOST_CALLS = 500;
  private static final long PATIENCE_SECONDS = 120;

  /** Measured first: other ways are not followed where they are far behind it. */
  private static final ChosenAlgorithm MEASURE =
      new ChosenAlgorithm(Algorithm.RING, Protocol.SIMPLE);

  private static final String NOT_DIRECT =
      Stream.concat(Algorithm.betweenWindows().stream(), Stream.of(Algorithm.RAILS))
          .map(Algorithm::label)
          .distinct()
          .collect(Collectors.joining(",", "^", ""));

  /**
   * A way so much slower than the best is not followed to larger sizes, where its times are long
   * enough to be worth sparing: short ones vary more than that when others use the machine.
   */
  private static final double HOPELESS = 6;

  private static final double WORTH_SPARING_MICROSECONDS = 2000;

  private final long most;
  private final List<Communicator> ranks;
  private final List<DeviceMemory> sends = new ArrayList<>();
  private final List<DeviceMemory> recvs = new ArrayList<>();

  /** Of all buffers, sends before receives; empty while these are in no windows. */
  private final List<Window> windows = new ArrayList<>();

  private final List<DeviceStream> streams = new ArrayList<>();

  private final RankThreads threads;
  private final CyclicBarrier barrier;
  private final Optional<String> noWindows;

  /** One for each rank, for the times of ranks of several processes; empty if there is one. */
  private final List<DeviceMemory> agreed = new ArrayList<>();

  /** Prepares ranks with threads of their own, which are not bound. */
  AlgorithmTimes(List<Communicator> ranks, long most) {
    this(ranks, newThreads(ranks.size()), most);
  }

  /**
   * Prepares ranks, which are closed in the end, as are the threads.
   *
   * @param ranks of a communicator: all, or those of this process
   * @param threads one for each
   * @param most bytes of the largest size
   */
  AlgorithmTimes(List<Communicator> ranks, RankThreads threads, long most) {
    this.most = most;
    this.ranks = ranks;
    this.threads = threads;
    boolean together = ranks.get(0).nRanks() == ranks.size();
    List<Device> devices = ranks.stream().map(Communicator::device).toList();
    barrier = new CyclicBarrier(devices.size());
    try {
      sends.addAll(threads.all(rank -> devices.get(rank).memAlloc(most)));
      recvs.addAll(threads.all(rank -> devices.get(rank).memAlloc(most)));
      for (Device device : devices) {
        streams.add(device.createStream());
        if (!together) {
          agreed.add(device.memAlloc(DataType.FLOAT64.bytes()));
        }
      }
    } catch (RuntimeException e) {
      close();
      throw e;
    }
    noWindows =
        together ? register() : Optional.of("the ranks are of several processes or machines");
  }

  /** Threads for ranks of this process. */
  static RankThreads newThreads(int ranks) {
    return new RankThreads(ranks, PATIENCE_SECONDS);
  }

  /** Why the ways through windows are not measured, or empty if they are. */
  Optional<String> noWindows() {
    return noWindows;
  }

  /** The first lines of a table of these times. */
  List<String> header() {
    return List.of(
        "# Microseconds by nccl4j's tune: float32 sums, %d ranks.".formatted(ranks.get(0).nRanks()),
        "# ranks, collective, algorithm, protocol, then bytes:microseconds",
        "device " + ranks.get(0).device().name());
  }

  /** Makes windows of all buffers, where that is possible; else why not. */
  private Optional<String> register() {
    try {
      for (List<DeviceMemory> buffers : List.of(sends, recvs)) {
        List<Window> made = new ArrayList<>();
        Group.run(
            () -> {
              for (int rank = 0; rank < ranks.size(); rank++) {
                made.add(ranks.get(rank).registerWindow(buffers.get(rank)));
              }
            });
        windows.addAll(made);
      }
      return Optional.empty();
    } catch (InvalidArgumentException | InvalidUsageException e) {
      deregister();
      return Optional.of(e.problem());
    }
  }

  /**
   * Ends the windows of all buffers, or makes them again: other buffers would take as much memory.
   */
  private void putInWindows(boolean in) {
    if (in == !windows.isEmpty() || noWindows.isPresent()) {
      return;
    }
    if (!in) {
      deregister();
      return;
    }
    Optional<String> obstacle = register();
    if (obstacle.isPresent()) {
      throw new InvalidUsageException(
          ErrorId.USAGE,
          "the buffers cannot be put in windows again: " + obstacle.get(),
          "measure without NVLS (NCCL_NVLS_ENABLE=0), or free memory");
    }
  }

  /** Ends the windows of all ranks' sends, and of their receives. */
  private void deregister() {
    while (!windows.isEmpty()) {
      List<Window> each = windows.subList(0, ranks.size());
      Group.run(
          () -> {
            for (int rank = 0; rank < ranks.size(); rank++) {
              ranks.get(rank).deregisterWindowOnAllRanks(each.get(rank));
            }
          });
      each.clear();
    }
  }

  /**
   * Measures all; a line of the table for each way, as soon as it is known. The same on all ranks.
   *
   * @throws InvalidUsageException if a table cannot have times of these ranks
   */
  void measure(long least, Consumer<String> line) {
    String inTable = ranks.get(0).costTableKey();
    if (inTable.isEmpty()) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "a table has no times of hosts with different numbers of ranks, or different networks",
          "start as many ranks on each host, and choose a network that all have by NCCL_NET");
    }
    for (Operation operation : Operation.ofAllRanks()) {
      Map<Long, Double> best = new HashMap<>();
      for (ChosenAlgorithm way : ways(operation)) {
        String points = points(operation, way, least, best);
        if (!points.isEmpty()) {
          line.accept(
              "%s %s %s %s%s"
                  .formatted(
                      inTable,
                      operation.label(),
                      way.algorithm().inTables(),
                      way.protocol().label(),
                      points));
        }
      }
    }
  }

  /** All ways that some device could have; first that which the others are measured by. */
  private List<ChosenAlgorithm> ways(Operation operation) {
    List<ChosenAlgorithm> ways = new ArrayList<>();
    if (operation.isCollective()) {
      for (Algorithm algorithm : Algorithm.overConnections()) {
        for (Protocol protocol : Protocol.values()) {
          ways.add(new ChosenAlgorithm(algorithm, protocol));
        }
      }
      ways.sort(Comparator.comparing(way -> !way.equals(MEASURE)));
    } else {
      ways.add(new ChosenAlgorithm(Algorithm.PAIRWISE, Protocol.SIMPLE));
      if (Algorithm.RAILS.has(operation)) {
        ways.add(new ChosenAlgorithm(Algorithm.RAILS, Protocol.SIMPLE));
      }
    }
    if (noWindows.isEmpty()) {
      for (Algorithm way : Algorithm.betweenWindows()) {
        ways.add(new ChosenAlgorithm(way, way.protocol()));
      }
    }
    return ways;
  }

  private String points(
      Operation operation, ChosenAlgorithm way, long least, Map<Long, Double> best) {
    CallOptions options =
        way.algorithm() == Algorithm.PAIRWISE
            ? CallOptions.defaults().withAlgorithm(NOT_DIRECT)
            : CallOptions.defaults().withAlgorithm(way.algorithm().label());
    if (!isExchange(way)) {
      options = options.withProtocol(way.protocol().label());
    }
    List<Communicator> ways = new ArrayList<>();
    for (Communicator rank : ranks) {
      ways.add(rank.withOptions(options));
    }
    // NVLS has one name over connections and in place: buffers in windows have it in place.
    boolean plain = way.algorithm().isNvls() || noWindows.isPresent();
    TreeMap<Long, Double> points = new TreeMap<>();
    for (long bytes = least; bytes <= most; bytes *= 4) {
      long count = bytes / DataType.FLOAT32.bytes() / operation.wholes(ranks.get(0).nRanks());
      if (count > 0 && isTaken(ways.get(0), operation, way, count, plain)) {
        double time = median(ways, operation, count, plain);
        points.put(bytes, time);
        best.merge(bytes, time, Math::min);
        if (isHopeless(time, best.get(bytes))) {
          break;
        }
      }
    }
    return CostPoints.write(points);
  }

  static boolean isHopeless(double microseconds, double best) {
    return microseconds > WORTH_SPARING_MICROSECONDS && microseconds > HOPELESS * best;
  }

  /** Its messages have the protocols of their sizes. */
  private static boolean isExchange(ChosenAlgorithm way) {
    return way.algorithm() == Algorithm.PAIRWISE || way.algorithm() == Algorithm.RAILS;
  }

  /** True if there is the way for that size. */
  private static boolean isTaken(
      Communicator rank, Operation operation, ChosenAlgorithm way, long count, boolean plain) {
    ChosenAlgorithm decided =
        plain
            ? rank.chosenAlgorithm(operation, count, DataType.FLOAT32)
            : rank.chosenAlgorithmInWindows(operation, count, DataType.FLOAT32);
    return decided.algorithm() == way.algorithm()
        && (decided.protocol() == way.protocol() || isExchange(way));
  }

  private double median(List<Communicator> ways, Operation operation, long count, boolean plain) {
    putInWindows(!plain);
    double cold = time(ways, operation, count, 1);
    int warmUp = (int) Math.max(1, Math.min(WARM_UP, ROUND_MICROSECONDS / cold));
    time(ways, operation, count, warmUp);
    double first = time(ways, operation, count, warmUp);
    int calls = (int) Math.max(2, Math.min(MOST_CALLS, ROUND_MICROSECONDS / first));
    double[] rounds = new double[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
      rounds[round] = time(ways, operation, count, calls);
    }
    Arrays.sort(rounds);
    return rounds[ROUNDS / 2];
  }

  /** Microseconds of a call on the slowest rank. */
  private double time(List<Communicator> ways, Operation operation, long count, int calls) {
    return Collections.max(
        threads.all(rank -> time(ways.get(rank), rank, operation, count, calls)));
  }

  private double time(Communicator way, int rank, Operation operation, long count, int calls)
      throws InterruptedException, BrokenBarrierException, TimeoutException {
    DeviceStream stream = streams.get(rank);
    if (agreed.isEmpty()) {
      barrier.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } else {
      slowest(rank, 0); // a barrier
    }
    long start = System.nanoTime();
    for (int call = 0; call < calls; call++) {
      call(way, sends.get(rank), recvs.get(rank), operation, count, stream);
    }
    stream.synchronize();
    double time = (System.nanoTime() - start) / 1e3 / calls;
    return agreed.isEmpty() ? time : slowest(rank, time);
  }

  /** The most that a rank of any process gives. */
  private double slowest(int rank, double time) {
    DeviceMemory memory = agreed.get(rank);
    ByteBuffer number = ByteBuffer.allocate(Double.BYTES).order(ByteOrder.nativeOrder());
    memory.write(0, number.putDouble(0, time));
    ranks.get(rank).allReduce(memory, memory, 1, DataType.FLOAT64, RedOp.MAX, streams.get(rank));
    streams.get(rank).synchronize();
    memory.read(0, number.clear());
    return number.getDouble(0);
  }

  private static void call(
      Communicator way,
      DeviceMemory send,
      DeviceMemory recv,
      Operation operation,
      long count,
      DeviceStream stream) {
    DataType type = DataType.FLOAT32;
    switch (operation) {
      case ALL_REDUCE -> way.allReduce(send, recv, count, type, RedOp.SUM, stream);
      case ALL_GATHER -> way.allGather(send, recv, count, type, stream);
      case REDUCE_SCATTER -> way.reduceScatter(send, recv, count, type, RedOp.SUM, stream);
      case BROADCAST -> way.broadcast(send, recv, count, type, 0, stream);
      case REDUCE -> way.reduce(send, recv, count, type, RedOp.SUM, 0, stream);
      case ALL_TO_ALL -> way.allToAll(send, recv, count, type, stream);
      case SCATTER -> way.scatter(send, recv, count, type, 0, stream);
      case GATHER -> way.gather(send, recv, count, type, 0, stream);
      default -> throw new IllegalArgumentException(operation.key());
    }
  }

  @Override
  public void close() {
    threads.close();
    ranks.forEach(Communicator::close);
    streams.forEach(DeviceStream::close);
    sends.forEach(DeviceMemory::close);
    recvs.forEach(DeviceMemory::close);
    agreed.forEach(DeviceMemory::close);
  }
}
