package org.nccl4j.it.perf;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Decision;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.Protocol;

/** Times of collectives by each way that the devices have, among ranks that are threads. */
final class WayTimes implements AutoCloseable {
  private static final int WARM_UP = 10;
  private static final int ROUNDS = 5;
  private static final double ROUND_MICROSECONDS = 4000;
  private static final int MOST_CALLS = 500;
  private static final long PATIENCE_SECONDS = 120;

  /** A way so much slower than the best is not followed to larger sizes. */
  private static final double HOPELESS = 6;

  private final long most;
  private final List<Communicator> ranks;
  private final List<DeviceMemory> sends = new ArrayList<>();
  private final List<DeviceMemory> recvs = new ArrayList<>();
  private final List<DeviceStream> streams = new ArrayList<>();
  private final ExecutorService threads;
  private final CyclicBarrier barrier;

  WayTimes(List<Device> devices, long most) {
    this.most = most;
    ranks = Communicator.initAll(devices);
    barrier = new CyclicBarrier(devices.size());
    threads =
        Executors.newFixedThreadPool(
            devices.size(),
            task -> {
              Thread thread = new Thread(task, "nccl4j-tune");
              thread.setDaemon(true);
              return thread;
            });
    try {
      for (Device device : devices) {
        sends.add(device.allocate(most));
        recvs.add(device.allocate(most));
        streams.add(device.createStream());
      }
    } catch (RuntimeException e) {
      close();
      throw e;
    }
  }

  /** Measures all; a line of the table for each way, as soon as it is known. */
  void measure(long least, Consumer<String> line) {
    for (Collective collective : Collective.values()) {
      Map<Long, Double> best = new HashMap<>();
      for (Algorithm algorithm : Algorithm.values()) {
        for (Protocol protocol : Protocol.values()) {
          String points = points(collective, algorithm, protocol, least, best);
          if (!points.isEmpty()) {
            line.accept(
                "%d %s %s %s%s"
                    .formatted(
                        ranks.size(),
                        collective.label(),
                        algorithm.label(),
                        protocol.label(),
                        points));
          }
        }
      }
    }
  }

  private String points(
      Collective collective,
      Algorithm algorithm,
      Protocol protocol,
      long least,
      Map<Long, Double> best) {
    List<Communicator> ways = new ArrayList<>();
    CallOptions options =
        CallOptions.defaults().withAlgorithm(algorithm.label()).withProtocol(protocol.label());
    ranks.forEach(rank -> ways.add(rank.withOptions(options)));
    StringBuilder points = new StringBuilder();
    Decision wanted = new Decision(algorithm.label(), protocol.label());
    for (long bytes = least; bytes <= most; bytes *= 4) {
      long count = count(collective, bytes);
      if (count > 0
          && ways.get(0).decision(name(collective), count, DataType.FLOAT32).equals(wanted)) {
        double time = median(ways, collective, count);
        points.append(String.format(Locale.ROOT, " %d:%.2f", bytes, Math.max(0.01, time)));
        best.merge(bytes, time, Math::min);
        if (time > HOPELESS * best.get(bytes)) {
          return points.toString();
        }
      }
    }
    return points.toString();
  }

  private static String name(Collective collective) {
    return collective.name().toLowerCase(Locale.ROOT);
  }

  /** Elements as in the call, of a size of the whole data. */
  private long count(Collective collective, long bytes) {
    long elements = bytes / DataType.FLOAT32.bytes();
    return switch (collective) {
      case ALL_GATHER, REDUCE_SCATTER -> elements / ranks.size();
      case ALL_REDUCE, BROADCAST, REDUCE -> elements;
    };
  }

  private double median(List<Communicator> ways, Collective collective, long count) {
    time(ways, collective, count, WARM_UP);
    double first = time(ways, collective, count, WARM_UP);
    int calls = (int) Math.max(2, Math.min(MOST_CALLS, ROUND_MICROSECONDS / first));
    double[] rounds = new double[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
      rounds[round] = time(ways, collective, count, calls);
    }
    Arrays.sort(rounds);
    return rounds[ROUNDS / 2];
  }

  /** Microseconds of a call on the slowest rank. */
  private double time(List<Communicator> ways, Collective collective, long count, int calls) {
    List<Future<Double>> times = new ArrayList<>();
    for (int rank = 0; rank < ways.size(); rank++) {
      int self = rank;
      times.add(threads.submit(() -> time(ways.get(self), self, collective, count, calls)));
    }
    double slowest = 0;
    for (Future<Double> time : times) {
      slowest = Math.max(slowest, result(time));
    }
    return slowest;
  }

  private static double result(Future<Double> time) {
    try {
      return time.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InternalErrorException("tune was interrupted", "start it again", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof NcclException nccl) {
        throw nccl;
      }
      throw new InternalErrorException(
          "a rank of tune failed (%s)".formatted(e.getCause()), "report this", e);
    } catch (TimeoutException e) {
      throw new org.nccl4j.device.TimeoutException(
          "a measurement was not done after %d s".formatted(PATIENCE_SECONDS),
          "give it smaller sizes (-e), or a machine that does nothing else");
    }
  }

  private double time(Communicator way, int rank, Collective collective, long count, int calls)
      throws InterruptedException, BrokenBarrierException, TimeoutException {
    DeviceStream stream = streams.get(rank);
    barrier.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
    long start = System.nanoTime();
    for (int call = 0; call < calls; call++) {
      call(way, sends.get(rank), recvs.get(rank), collective, count, stream);
    }
    stream.synchronize();
    return (System.nanoTime() - start) / 1e3 / calls;
  }

  private static void call(
      Communicator way,
      DeviceMemory send,
      DeviceMemory recv,
      Collective collective,
      long count,
      DeviceStream stream) {
    DataType type = DataType.FLOAT32;
    switch (collective) {
      case ALL_REDUCE -> way.allReduce(send, recv, count, type, RedOp.SUM, stream);
      case ALL_GATHER -> way.allGather(send, recv, count, type, stream);
      case REDUCE_SCATTER -> way.reduceScatter(send, recv, count, type, RedOp.SUM, stream);
      case BROADCAST -> way.broadcast(send, recv, count, type, 0, stream);
      case REDUCE -> way.reduce(send, recv, count, type, RedOp.SUM, 0, stream);
    }
  }

  @Override
  public void close() {
    threads.shutdownNow();
    streams.forEach(DeviceStream::close);
    sends.forEach(DeviceMemory::close);
    recvs.forEach(DeviceMemory::close);
    ranks.forEach(Communicator::close);
  }
}
