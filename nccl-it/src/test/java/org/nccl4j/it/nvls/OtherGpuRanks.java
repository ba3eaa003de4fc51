package org.nccl4j.it.nvls;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.api.Registration;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/** Programs like {@link FakeGpuRanks} that make communicators of their own. */
final class OtherGpuRanks {
  private static final long PER_THREAD = 2; // CU_STREAM_PER_THREAD
  private static final int COUNT = 16;
  private static final Executor THREADS = task -> new Thread(task).start();
  private static final CommunicatorConfig DEBUG =
      CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_GLOBAL");

  private OtherGpuRanks() {}

  private static void sum(Communicator comm, DeviceMemory from, DeviceMemory to, DeviceStream in) {
    comm.allReduce(from, to, COUNT, DataType.FLOAT32, RedOp.SUM, in);
  }

  /** A communicator of one rank, between two allocations that can be told from others. */
  static void alone(Device device) {
    try (DeviceMemory from = device.allocate(4 * COUNT);
        DeviceMemory to = device.allocate(4 * COUNT);
        DeviceStream stream = device.createStream()) {
      device.allocate(FakeGpuRanks.MARK_BYTES).close();
      try (Communicator one = Communicator.initAll(List.of(device)).get(0)) {
        sum(one, from, to, stream);
        stream.synchronize();
        device.allocate(FakeGpuRanks.MARK_BYTES).close();
        long bytes = one.memory().values().stream().mapToLong(Long::longValue).sum();
        System.out.println("alone it holds " + bytes + " bytes");
      }
    }
  }

  /** Splits, those by default between two allocations as above. */
  static void splits(List<Device> devices) {
    List<Communicator> ranks = Communicator.initAll(devices);
    for (boolean share : new boolean[] {false, true}) {
      List<Communicator> asked = split(ranks, CommunicatorConfig.defaults().withSplitShare(share));
      System.out.println("with share " + share + " it holds " + held(asked));
      asked.forEach(Communicator::close);
    }
    devices.get(0).allocate(FakeGpuRanks.MARK_BYTES).close();
    List<Communicator> split = split(ranks, CommunicatorConfig.defaults());
    List<Communicator> ofSplit = split(split, CommunicatorConfig.defaults());
    System.out.println("by default it holds " + held(ofSplit));
    System.out.println("items " + ofSplit.get(0).memory());
    System.out.println("reached by " + ofSplit.get(0).transports());
    devices.get(0).allocate(FakeGpuRanks.MARK_BYTES).close();
    suspend(ranks);
    shrink(ofSplit);
    ofSplit.get(0).abort();
    System.out.println("failed: " + ranks.get(0).asyncError().isPresent());
    for (List<Communicator> each : List.of(ofSplit, split, ranks)) {
      each.forEach(comm -> comm.close(Duration.ZERO));
    }
  }

  /** Splits of two ranks each. */
  static void pairs(List<Device> devices) {
    List<Communicator> ranks = Communicator.initAll(devices);
    Communicator[] made = new Communicator[ranks.size()];
    together(
        ranks, rank -> made[rank.rank()] = rank.split(rank.rank() / 2, rank.rank()).orElseThrow());
    System.out.println("a pair holds " + held(List.of(made)));
    List.of(made).forEach(Communicator::close);
    ranks.forEach(Communicator::close);
  }

  /** Memory that splits use cannot be suspended. */
  private static void suspend(List<Communicator> ranks) {
    together(
        ranks,
        rank -> {
          try {
            rank.suspend();
            System.out.println("suspended");
          } catch (InvalidUsageException e) {
            System.out.println("not suspended: " + e.getMessage());
          }
        });
  }

  /** A shrink after an abort shares nothing with the aborted communicator. */
  private static void shrink(List<Communicator> ranks) {
    CommunicatorConfig share = CommunicatorConfig.defaults().withShrinkShare(true);
    List<Communicator> left = new ArrayList<>(ranks);
    Communicator gone = left.remove(ranks.size() - 1);
    List<Communicator> shrunk = Collections.synchronizedList(new ArrayList<>());
    together(left, rank -> shrunk.add(rank.shrink(Set.of(gone.rank()), ShrinkMode.ABORT, share)));
    System.out.println("shrunk it has failed: " + shrunk.get(0).asyncError().isPresent());
    System.out.println("shrunk it holds " + held(shrunk));
    shrunk.forEach(Communicator::close);
  }

  private static List<Communicator> split(List<Communicator> ranks, CommunicatorConfig config) {
    Communicator[] made = new Communicator[ranks.size()];
    together(ranks, rank -> made[rank.rank()] = rank.split(0, -rank.rank(), config).orElseThrow());
    return List.of(made);
  }

  private static String held(List<Communicator> ranks) {
    return ranks.get(0).memory().values().stream().mapToLong(Long::longValue).sum() + " bytes";
  }

  /**
   * Calls that are compared, each of a communicator of its own: the fake driver's kernels bring
   * nothing from other ranks, so each fails.
   */
  static void compared(List<Device> devices) {
    int refused = 0;
    for (int call = 0; call < 40; call++) {
      List<Communicator> ranks = Communicator.initAll(devices, DEBUG);
      Communicator rank = ranks.get(0);
      try (DeviceMemory data = rank.device().allocate(4 * COUNT);
          DeviceStream stream = rank.device().createStream()) {
        sum(rank, data, data, stream);
        stream.synchronize();
      } catch (NcclException e) {
        refused += e.getMessage().contains("does not report its call") ? 1 : 0;
      }
      ranks.forEach(Communicator::close);
    }
    System.out.println("compared " + refused + " calls");
  }

  /** Memory that each rank registers, used in a group, deregistered; and again, other memory. */
  static void registered(List<Device> devices) {
    List<Communicator> ranks = Communicator.initAll(devices);
    for (int round = 0; round < 3; round++) {
      List<DeviceMemory> memories = new ArrayList<>();
      List<DeviceStream> streams = new ArrayList<>();
      List<Registration> registrations = new ArrayList<>();
      for (Communicator rank : ranks) {
        memories.add(rank.device().memAlloc(4 << 20));
        streams.add(rank.device().createStream());
        registrations.add(rank.register(memories.get(rank.rank())));
      }
      Group.run(
          () -> {
            for (Communicator rank : ranks) {
              DeviceMemory memory = memories.get(rank.rank());
              sum(rank, memory, memory, streams.get(rank.rank()));
            }
          });
      for (Communicator rank : ranks) {
        Registration registration = registrations.get(rank.rank());
        System.out.println("mapped: " + registration.isMapped() + registration.obstacle());
        streams.get(rank.rank()).close();
        rank.deregister(registration);
        memories.get(rank.rank()).close();
      }
    }
    ranks.forEach(Communicator::close);
  }

  /** Of each rank's memory of large operations. */
  private static final long BYTES = 128 << 20;

  /**
   * One thread drives all ranks: small operations, then, after an allocation that can be told,
   * large ones one rank after the other, in a group, and in a capture.
   */
  static void large(List<Communicator> ranks) {
    int skew = Integer.getInteger("nccl4j.skew", 0); // bytes from one buffer to the other
    int count = skew == 0 ? 32 << 20 : (16 << 20) - skew;
    boolean inWindows = Boolean.getBoolean("nccl4j.windows");
    List<DeviceMemory> memories = new ArrayList<>();
    List<DeviceStream> streams = new ArrayList<>();
    for (Communicator rank : ranks) {
      memories.add(inWindows ? rank.device().memAlloc(BYTES) : rank.device().allocate(BYTES));
      streams.add(rank.device().createStream());
    }
    List<Window> windows = inWindows ? register(ranks, memories, BYTES) : List.of();
    for (Communicator rank : ranks) {
      sum(rank, memories.get(rank.rank()), memories.get(rank.rank()), streams.get(rank.rank()));
    }
    ranks.get(0).device().allocate(FakeGpuRanks.MARK_BYTES).close();
    Runnable each =
        () -> {
          for (Communicator rank : ranks) {
            DeviceMemory memory = memories.get(rank.rank());
            DeviceMemory to = skew == 0 ? memory : memory.slice(BYTES / 2 + skew, BYTES / 2 - skew);
            rank.allReduce(
                memory, to, count, DataType.FLOAT32, RedOp.SUM, streams.get(rank.rank()));
          }
        };
    if (Boolean.getBoolean("nccl4j.captured")) {
      capture(streams, each);
    }
    each.run();
    Group.run(each);
    if (inWindows) {
      afterwards(ranks, windows);
    }
    streams.forEach(DeviceStream::close);
    memories.forEach(DeviceMemory::close);
  }

  /** Looks at windows that were registered before NVLS was made, and at one that is now. */
  private static void afterwards(List<Communicator> ranks, List<Window> before) {
    describe(before.get(0));
    List<DeviceMemory> more = memories(ranks);
    List<Window> after = register(ranks, more, 4 << 20);
    describe(after.get(0));
    for (List<Window> windows : List.of(before, after)) {
      together(ranks, rank -> rank.deregisterWindowOnAllRanks(windows.get(rank.rank())));
    }
    more.forEach(DeviceMemory::close);
  }

  /** One thread drives all ranks, by groups; then one rank has failed. */
  static void driven(List<Device> devices) {
    List<Communicator> ranks = Communicator.initAll(devices);
    List<DeviceMemory> memories = new ArrayList<>();
    List<DeviceStream> streams = new ArrayList<>();
    for (Device device : devices) {
      memories.add(device.allocate(4 * COUNT));
      streams.add(device.createStream());
    }
    Runnable group =
        () -> {
          for (int rank = 0; rank < ranks.size(); rank++) {
            DeviceMemory memory = memories.get(rank);
            sum(ranks.get(rank), memory, memory, streams.get(rank));
          }
        };
    Group.run(
        () -> {
          for (int rank = 0; rank < ranks.size(); rank++) {
            CudaStream perThread = ((CudaDevice) devices.get(rank)).wrapStream(PER_THREAD);
            sum(ranks.get(rank), memories.get(rank), memories.get(rank), perThread);
          }
        });
    System.out.println("launching threads with per-thread streams: " + launching());
    for (int round = 0; round < 100; round++) {
      Group.run(group);
    }
    System.out.println("launching threads: " + launching());
    capture(streams, group);
    ranks.get(1).abort();
    try {
      Group.run(group);
    } catch (NcclException e) {
      System.out.println("group: " + e.getMessage());
    }
    ranks.forEach(rank -> rank.close(Duration.ZERO));
    long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    while (launching() > 0 && System.nanoTime() - end < 0) {
      Thread.onSpinWait();
    }
    System.out.println("at the end: " + launching());
    streams.forEach(DeviceStream::close);
    memories.forEach(DeviceMemory::close);
  }

  /** A capture gets the calls of its own thread, and spoils nothing. */
  private static void capture(List<DeviceStream> streams, Runnable group) {
    List<CudaStream> captured = streams.stream().map(CudaStream.class::cast).toList();
    captured.forEach(CudaStream::beginCapture);
    Group.run(group);
    Group.run(group);
    List<CudaGraph> graphs = captured.stream().map(CudaStream::endCapture).toList();
    for (int rank = 0; rank < graphs.size(); rank++) {
      graphs.get(rank).launch(captured.get(rank));
      graphs.get(rank).close();
    }
    System.out.println("captured " + graphs.size() + " graphs");
  }

  private static long launching() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("nccl4j-launch-"))
        .count();
  }

  /**
   * Three windows of all ranks in two allocations, of which the first is given back; the second
   * lies in memory that is returned, and stays registered.
   */
  static List<DeviceMemory> windows(List<Communicator> ranks) {
    List<DeviceMemory> first = memories(ranks);
    List<DeviceMemory> second = memories(ranks);
    List<Window> parts = register(ranks, first, 4096);
    List<Window> all = register(ranks, first, 4 << 20);
    describe(register(ranks, second, 4 << 20).get(0));
    System.out.println(ranks.get(0).explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32));
    together(ranks, rank -> rank.deregisterWindowOnAllRanks(parts.get(rank.rank())));
    ranks.get(0).device().allocate(FakeGpuRanks.MARK_BYTES).close();
    together(ranks, rank -> rank.deregisterWindowOnAllRanks(all.get(rank.rank())));
    first.forEach(DeviceMemory::close);
    return second;
  }

  /** The contents of a device communicator; its handle is freed with the communicator. */
  private static void describe(Window window) {
    ByteBuffer handle = ByteBuffer.allocateDirect(40).order(ByteOrder.nativeOrder());
    window.memory().device().wrap(window.deviceHandle(), 40).read(0, handle);
    long multimem = window.multimemAddress().orElse(0);
    System.out.println(
        "multimem %s, in the handle %s"
            .formatted(multimem != 0, handle.getLong(32) == multimem ? "too" : "another"));
  }

  private static List<DeviceMemory> memories(List<Communicator> ranks) {
    return ranks.stream().map(rank -> rank.device().memAlloc(4 << 20)).toList();
  }

  private static List<Window> register(
      List<Communicator> ranks, List<DeviceMemory> memories, long bytes) {
    Window[] windows = new Window[ranks.size()];
    together(
        ranks,
        rank ->
            windows[rank.rank()] = rank.registerWindow(memories.get(rank.rank()).slice(0, bytes)));
    return List.of(windows);
  }

  /** All ranks do the same, each on a thread. */
  static void together(List<Communicator> ranks, Consumer<Communicator> what) {
    CompletableFuture.allOf(
            ranks.stream()
                .map(rank -> CompletableFuture.runAsync(() -> what.accept(rank), THREADS))
                .toArray(CompletableFuture<?>[]::new))
        .join();
  }

  /** Two communicators, called in one order on one rank's stream and in the other on another's. */
  static void conflict(List<Device> devices) {
    List<Communicator> weights = Communicator.initAll(devices, DEBUG.withName("weights"));
    List<Communicator> gradients = Communicator.initAll(devices, DEBUG.withName("gradients"));
    List<Communicator> all = new ArrayList<>(weights);
    all.addAll(gradients);
    List<DeviceMemory> memories = new ArrayList<>();
    for (int rank = 0; rank < devices.size(); rank++) {
      DeviceMemory data = devices.get(rank).allocate(4 * COUNT);
      DeviceStream stream = devices.get(rank).createStream();
      memories.add(data);
      boolean first = rank == 0;
      sum((first ? weights : gradients).get(rank), data, data, stream);
      sum((first ? gradients : weights).get(rank), data, data, stream);
    }
    long end = System.nanoTime() + Duration.ofSeconds(90).toNanos();
    Optional<NcclException> error = Optional.empty();
    while (error.isEmpty() && System.nanoTime() - end < 0) {
      LockSupport.parkNanos(1_000_000);
      error =
          all.stream()
              .map(Communicator::asyncError)
              .flatMap(Optional::stream)
              .filter(e -> e.getMessage().contains("ORDER"))
              .findFirst();
    }
    System.out.println("conflict: " + error);
    // The fake's kernels never end, so that each close waits as long as it may.
    together(all, comm -> comm.close(Duration.ZERO));
    memories.forEach(DeviceMemory::close);
  }
}
