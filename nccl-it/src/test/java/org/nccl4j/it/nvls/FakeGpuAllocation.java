package org.nccl4j.it.nvls;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** A program that prints what its thread allocates by operations of all GPUs, once warmed up. */
final class FakeGpuAllocation {
  static final int OPERATIONS = 500;

  /** The JVM allocates for itself now and then, and compiles late: the least round counts. */
  private static final int ROUNDS = 40;

  private static final int COUNT = 4096;
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private final List<Communicator> ranks;
  private final List<DeviceMemory> from = new ArrayList<>();
  private final List<DeviceMemory> to = new ArrayList<>();
  private final List<DeviceStream> streams = new ArrayList<>();

  private FakeGpuAllocation() {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    ranks = Communicator.initAll(devices);
    for (Device device : devices) {
      from.add(device.allocate(4 * COUNT));
      to.add(device.allocate(4 * COUNT));
      streams.add(device.createStream());
    }
  }

  /** Argument: "together" for groups of collectives alone. */
  public static void main(String[] arguments) {
    if (arguments.length > 0) {
      new FakeGpuAllocation().runTogether();
    } else {
      new FakeGpuAllocation().run();
    }
  }

  private void runTogether() {
    List<Runnable> calls = new ArrayList<>();
    for (int rank = 0; rank < ranks.size(); rank++) {
      for (int part = 0; part < 4; part++) {
        DeviceMemory send = from.get(rank).slice(part * COUNT, COUNT);
        DeviceMemory recv = to.get(rank).slice(part * COUNT, COUNT);
        Communicator comm = ranks.get(rank);
        DeviceStream stream = streams.get(rank);
        calls.add(() -> comm.allReduce(send, recv, COUNT / 4, DataType.FLOAT32, RedOp.SUM, stream));
      }
    }
    Runnable all =
        () -> {
          for (int call = 0; call < calls.size(); call++) {
            calls.get(call).run();
          }
        };
    measure("group of 8 calls", () -> Group.run(all));
    close();
  }

  private void run() {
    // The first group is of all ranks: they connect in it.
    Runnable sums = this::sums;
    Runnable exchanges = this::exchanges;
    Runnable exchange = () -> exchange(0);
    measure("group of 2 calls", () -> Group.run(sums));
    measure("group of 4 calls", () -> Group.run(exchanges));
    measure("group of 2 calls", () -> Group.run(exchange));
    measure("sum", () -> sum(0));
    measure("gather", () -> gather(0));
    measure("broadcast", () -> broadcast(0));
    runOneSided();
    close();
  }

  /** No kernel runs, so that no wait needs a signal. */
  private void runOneSided() {
    List<DeviceMemory> memories = new ArrayList<>();
    List<Window> windows = new ArrayList<>();
    Group.run(
        () -> {
          for (Communicator comm : ranks) {
            memories.add(comm.device().memAlloc(4 * COUNT));
            windows.add(comm.registerWindow(memories.get(comm.rank())));
          }
        });
    Communicator comm = ranks.get(0);
    DeviceStream stream = streams.get(0);
    Window window = windows.get(0);
    Map<Integer, Integer> signals = Map.of(1, 2);
    Runnable put =
        () -> comm.putSignal(from.get(0), COUNT / 2, DataType.FLOAT32, 1, window, 64, stream);
    Runnable signal = () -> comm.signal(1, stream);
    Runnable wait = () -> comm.waitSignal(signals, stream);
    Runnable all =
        () -> {
          put.run();
          signal.run();
          wait.run();
        };
    measure("put", put);
    measure("signal", signal);
    measure("wait", wait);
    measure("group of 3 calls", () -> Group.run(all));
  }

  private void close() {
    streams.forEach(DeviceStream::close);
    from.forEach(DeviceMemory::close);
    to.forEach(DeviceMemory::close);
    ranks.forEach(Communicator::close);
  }

  private void sums() {
    for (int rank = 0; rank < ranks.size(); rank++) {
      sum(rank);
    }
  }

  private void sum(int rank) {
    ranks
        .get(rank)
        .allReduce(
            from.get(rank), to.get(rank), COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
  }

  private void gather(int rank) {
    ranks
        .get(rank)
        .allGather(from.get(rank), to.get(rank), COUNT / 2, DataType.FLOAT32, streams.get(rank));
  }

  private void broadcast(int rank) {
    ranks
        .get(rank)
        .broadcast(from.get(rank), to.get(rank), COUNT, DataType.FLOAT32, 0, streams.get(rank));
  }

  private void exchanges() {
    for (int rank = 0; rank < ranks.size(); rank++) {
      exchange(rank);
    }
  }

  private void exchange(int rank) {
    int peer = 1 - rank;
    Communicator comm = ranks.get(rank);
    comm.send(from.get(rank), COUNT, DataType.FLOAT32, peer, streams.get(rank));
    comm.recv(to.get(rank), COUNT, DataType.FLOAT32, peer, streams.get(rank));
  }

  private static void measure(String what, Runnable operation) {
    long least = Long.MAX_VALUE;
    for (int round = 0; round < ROUNDS && least > 0; round++) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      for (int n = 0; n < OPERATIONS; n++) {
        operation.run();
      }
      least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - before);
    }
    System.out.println(what + ": " + (least + OPERATIONS - 1) / OPERATIONS + " bytes");
  }
}
