package org.nccl4j.it.api;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.function.IntToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * A rank in a process of its own, for {@link ChaosTest}: makes a communicator for each line that it
 * reads, does random operations, suffers what the seed says, goes on with those that are left, and
 * says how it was.
 */
public final class ChaosRank {
  /** The event of a round. */
  enum Fault {
    /** Nothing. */
    NONE,
    /** The victim aborts. */
    ABORT,
    /** Its process is killed. */
    KILL,
    /** Its process is stopped. */
    STOP,
    /**
     * Nothing of what it sends arrives, nor of what is sent to it; its control connections live.
     */
    CUT,
    /** The connections of its network are reset, and no others may take over. */
    RESET;

    /** True if the victim sees the communicator fail too. */
    boolean isOfNetwork() {
      return this == CUT || this == RESET;
    }
  }

  /** Where an operation's data are, and so how they get to ranks of other processes. */
  enum Memory {
    /** The device has allocated it: other ranks map it. */
    ALLOCATED,
    /** A direct buffer of Java's: other ranks read it by process_vm_readv. */
    WRAPPED,
    /** In registered windows. */
    WINDOW;

    /** Floats at each index, for an operation. */
    DeviceMemory floats(int count, IntToDoubleFunction value) {
      ByteBuffer bytes =
          ByteBuffer.allocateDirect(count * Float.BYTES).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        bytes.putFloat(i * Float.BYTES, (float) value.applyAsDouble(i));
      }
      if (this == WRAPPED) {
        return Devices.wrap(bytes);
      }
      DeviceMemory memory =
          this == WINDOW
              ? Devices.host().memAlloc(bytes.capacity())
              : Devices.host().allocate(bytes.capacity());
      memory.write(0, bytes);
      return memory;
    }
  }

  /**
   * A round, the same for all ranks.
   *
   * @param net whether the ranks are connected by sockets instead of shared memory
   * @param operations before the fault
   * @param memory of the operations
   */
  record Plan(
      long seed, int nRanks, Fault fault, boolean net, int victim, int operations, Memory memory) {
    /** Ranks by turns: two have kernels of their own. */
    static int ranks(long seed) {
      return seed % 2 == 0 ? 2 : 3;
    }

    static Plan of(long seed) {
      int nRanks = ranks(seed);
      Random random = new Random(seed * 7919);
      int dice = random.nextInt(80);
      Fault fault =
          dice < 1
              ? Fault.STOP
              : dice < 2
                  ? Fault.CUT
                  : dice < 5
                      ? Fault.RESET
                      : dice < 10 ? Fault.KILL : dice < 42 ? Fault.ABORT : Fault.NONE;
      boolean net = random.nextInt(4) == 0 || fault.isOfNetwork();
      Memory memory = Memory.values()[(int) (seed / 2 % Memory.values().length)];
      return new Plan(seed, nRanks, fault, net, random.nextInt(nRanks), random.nextInt(8), memory);
    }

    CommunicatorConfig config() {
      CommunicatorConfig config =
          PATIENT
              .withOperationTimeout(Duration.ofSeconds(fault == Fault.CUT ? 5 : 120))
              .with("NCCL4J_HEARTBEAT_TIMEOUT", fault == Fault.STOP ? "5s" : "30s")
              .with("NCCL4J_SINGLE_COPY", memory == Memory.WRAPPED ? "all" : "auto");
      return net
          ? config
              .withTransports(List.of("NET"))
              .with("NCCL_NET", CuttableNet.NAME)
              .with("NCCL_SOCKET_IFNAME", "lo")
              .with("NCCL4J_NET_FAILOVER_TIMEOUT", fault == Fault.RESET ? "0" : "10s")
          : config;
    }
  }

  private static final DataType F32 = DataType.FLOAT32;

  /** Of what must not fail. */
  private static final CommunicatorConfig PATIENT =
      CommunicatorConfig.defaults()
          .withOperationTimeout(Duration.ofSeconds(120))
          .withInitTimeout(Duration.ofSeconds(120));

  private ChaosRank() {}

  /** Where another process finds all classes. */
  public static String classPath() {
    String own = ChaosRank.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    Path classes = Path.of("target", "classes").toAbsolutePath();
    Path tests = Path.of("target", "test-classes").toAbsolutePath();
    return Stream.of(
            own,
            classes.toString(),
            tests.toString(),
            System.getProperty("jdk.module.path"),
            System.getProperty("java.class.path"))
        .filter(Objects::nonNull)
        .collect(Collectors.joining(File.pathSeparator));
  }

  /** Reads lines "id seed rank", until there are no more. */
  public static void main(String[] arguments) throws IOException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      if (words[0].equals("footprint")) {
        System.out.println(footprint());
        continue;
      }
      Plan plan = Plan.of(Long.parseLong(words[1]));
      String outcome;
      try {
        round(UniqueId.parse(words[0]), plan, Integer.parseInt(words[2]), in);
        outcome = "ok";
      } catch (RuntimeException | IOException | AssertionError e) {
        outcome = "bad " + e.toString().replace('\n', ' ');
      }
      System.out.println(outcome);
    }
  }

  /** Descriptors, threads, and mappings of shared memory, which has no name outside processes. */
  public static String footprint() throws IOException {
    long threads =
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().startsWith("nccl4j-"))
            .count();
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"));
        Stream<String> mappings = Files.lines(Path.of("/proc/self/maps"))) {
      long shared = mappings.filter(mapping -> mapping.contains("/memfd:nccl4j")).count();
      return descriptors.count() + " " + threads + " " + shared;
    }
  }

  private static void round(UniqueId id, Plan plan, int rank, BufferedReader in)
      throws IOException {
    if (!plan.fault.isOfNetwork() || rank != plan.victim) {
      play(id, plan, rank, in);
      return;
    }
    try (CuttableForwarder cables = new CuttableForwarder()) {
      CuttableNet.cables = cables;
      play(id, plan, rank, in);
    } finally {
      CuttableNet.cables = null;
    }
  }

  private static void play(UniqueId id, Plan plan, int rank, BufferedReader in) throws IOException {
    try (DeviceStream stream = Devices.host().createStream()) {
      Communicator comm =
          Communicator.initRank(plan.nRanks, id, rank, Devices.host(), plan.config());
      try {
        if (!disturbed(comm, stream, plan, in) || rank == plan.victim) {
          return;
        }
        Random after = new Random(plan.seed + 1);
        // A stream of its own: the other may still have an error that nobody has asked for.
        try (Communicator left = comm.shrink(Set.of(plan.victim), ShrinkMode.ABORT, PATIENT);
            DeviceStream fresh = Devices.host().createStream()) {
          for (int n = 0; n < 3; n++) {
            operation(left, fresh, after, plan.memory);
          }
        }
      } finally {
        comm.close(Duration.ofSeconds(1));
      }
    }
  }

  /** Operations until the fault; whether it has hit this rank's communicator. */
  private static boolean disturbed(
      Communicator comm, DeviceStream stream, Plan plan, BufferedReader in) throws IOException {
    Random random = new Random(plan.seed);
    boolean mayFail =
        plan.fault != Fault.NONE && (comm.rank() != plan.victim || plan.fault.isOfNetwork());
    try {
      meet(comm, stream);
      for (int n = 0; n < plan.operations; n++) {
        operation(comm, stream, random, plan.memory);
      }
      if (plan.fault == Fault.NONE) {
        return false;
      }
      if (comm.rank() == plan.victim) {
        suffer(comm, plan.fault, in);
        if (plan.fault == Fault.ABORT || plan.fault == Fault.STOP) {
          return false;
        }
      }
      int most = plan.fault == Fault.KILL ? Integer.MAX_VALUE : 1000;
      for (int n = 0; n < most; n++) {
        operation(comm, stream, random, plan.memory);
      }
    } catch (NcclException e) {
      if (mayFail) {
        return true;
      }
      throw e;
    }
    throw new AssertionError("nothing failed");
  }

  /**
   * The victim comes out of this only when all others are in it: a fault before that could end
   * another rank's creation, and there would be nothing to shrink.
   */
  private static void meet(Communicator comm, DeviceStream stream) {
    try (DeviceMemory one = Ranks.floats(1, i -> 1)) {
      comm.allReduce(one, one, 1, F32, RedOp.SUM, stream);
      stream.synchronize();
    }
  }

  private static void suffer(Communicator comm, Fault fault, BufferedReader in) throws IOException {
    switch (fault) {
      case ABORT -> comm.abort();
      case KILL -> System.out.println(fault); // it goes on, so it ends anywhere in an operation
      case STOP -> {
        System.out.println(fault);
        String word = in.readLine();
        if (!"go on".equals(word)) {
          throw new AssertionError("told " + word);
        }
      }
      case CUT -> CuttableNet.cables.cut();
      case RESET -> CuttableNet.cables.reset();
      case NONE -> {}
    }
  }

  /** A round's random operation. */
  private enum Kind {
    ALL_REDUCE,
    BROADCAST,
    ALL_GATHER,
    ALL_TO_ALL,
    REDUCE_SCATTER,
    /** To the next rank, from the one before. */
    SEND_RECV,
    /** An all-reduce of a split of all ranks, in reverse order. */
    SPLIT,
    REDUCE;

    private boolean fillsAll() {
      return this == ALL_GATHER || this == ALL_TO_ALL;
    }
  }

  private static int count(Random random) {
    return 1
        + switch (random.nextInt(16)) {
          case 0 -> random.nextInt(600_000);
          case 1, 2, 3, 4, 5, 6, 7 -> random.nextInt(40_000);
          default -> random.nextInt(64);
        };
  }

  private static void operation(
      Communicator comm, DeviceStream stream, Random random, Memory memory) {
    int count = count(random);
    int n = comm.nRanks();
    int root = random.nextInt(n);
    Kind kind = Kind.values()[random.nextInt(Kind.values().length)];
    try (DeviceMemory mine = memory.floats(count, i -> comm.rank() + i % 100);
        DeviceMemory all = memory.floats(count * n, i -> comm.rank() + i % 100);
        DeviceMemory out = memory.floats(kind.fillsAll() ? count * n : count, i -> -1)) {
      List<Window> windows = new ArrayList<>();
      if (memory == Memory.WINDOW) {
        for (DeviceMemory each : List.of(mine, all, out)) {
          windows.add(comm.registerWindow(each));
        }
      }
      switch (kind) {
        case ALL_REDUCE -> comm.allReduce(mine, out, count, F32, RedOp.SUM, stream);
        case BROADCAST -> comm.broadcast(mine, out, count, F32, root, stream);
        case REDUCE -> comm.reduce(mine, out, count, F32, RedOp.SUM, root, stream);
        case ALL_GATHER -> comm.allGather(mine, out, count, F32, stream);
        case ALL_TO_ALL -> comm.allToAll(all, out, count, F32, stream);
        case REDUCE_SCATTER -> comm.reduceScatter(all, out, count, F32, RedOp.SUM, stream);
        case SEND_RECV ->
            Group.run(
                () -> {
                  comm.send(mine, count, F32, (comm.rank() + 1) % n, stream);
                  comm.recv(out, count, F32, (comm.rank() + n - 1) % n, stream);
                });
        case SPLIT -> {
          try (Communicator child = comm.split(0, -comm.rank()).orElseThrow()) {
            child.allReduce(mine, out, count, F32, RedOp.SUM, stream);
            stream.synchronize();
          }
        }
      }
      stream.synchronize();
      float[] got = Ranks.floats(out);
      for (int i = 0; i < got.length; i++) {
        float expected = expected(kind, comm.rank(), n, root, count, i);
        if (got[i] != expected) {
          throw new AssertionError(
              "element %d of %s is %s, not %s".formatted(i, kind, got[i], expected));
        }
      }
      for (Window window : windows) {
        comm.deregisterWindowOnAllRanks(window);
      }
    }
  }

  /** Element i of what a rank gets, where a rank gives its number and i % 100 as element i. */
  private static float expected(Kind kind, int rank, int n, int root, int count, int i) {
    int sumOfRanks = n * (n - 1) / 2;
    return switch (kind) {
      case ALL_REDUCE, SPLIT -> sumOfRanks + n * (i % 100);
      case BROADCAST -> root + i % 100;
      case ALL_GATHER -> i / count + i % count % 100;
      case ALL_TO_ALL -> i / count + (rank * count + i % count) % 100;
      case REDUCE_SCATTER -> sumOfRanks + n * ((rank * count + i) % 100);
      case SEND_RECV -> (rank + n - 1) % n + i % 100;
      case REDUCE -> rank == root ? sumOfRanks + n * (i % 100) : -1;
    };
  }
}
