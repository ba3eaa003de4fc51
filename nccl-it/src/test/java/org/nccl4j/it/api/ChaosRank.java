package org.nccl4j.it.api;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
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
  /** What happens in a round. */
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
    /** The connections of its network are reset. */
    RESET;

    /** Whether the victim itself sees the communicator fail, too. */
    boolean isOfNetwork() {
      return this == CUT || this == RESET;
    }
  }

  /**
   * A round, the same for all ranks.
   *
   * @param net whether the ranks are connected by sockets instead of shared memory
   * @param operations before the fault
   */
  record Plan(long seed, int nRanks, Fault fault, boolean net, int victim, int operations) {
    static Plan of(long seed, int nRanks) {
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
      return new Plan(seed, nRanks, fault, net, random.nextInt(nRanks), random.nextInt(8));
    }

    CommunicatorConfig config() {
      CommunicatorConfig config =
          PATIENT
              .withOperationDeadline(Duration.ofSeconds(fault == Fault.CUT ? 2 : 30))
              .with("NCCL4J_HEARTBEAT_TIMEOUT", fault == Fault.STOP ? "2s" : "30s");
      return net
          ? config
              .withTransports(List.of("NET"))
              .with("NCCL_NET", CuttableNet.NAME)
              .with("NCCL_SOCKET_IFNAME", "lo")
          : config;
    }
  }

  /** Of what must not fail. */
  private static final CommunicatorConfig PATIENT =
      CommunicatorConfig.defaults()
          .withOperationDeadline(Duration.ofSeconds(30))
          .withInitDeadline(Duration.ofSeconds(30));

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

  /** Reads lines "id seed nRanks rank", until there are no more. */
  public static void main(String[] arguments) throws IOException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      if (words[0].equals("footprint")) {
        System.out.println(footprint());
        continue;
      }
      Plan plan = Plan.of(Long.parseLong(words[1]), Integer.parseInt(words[2]));
      String outcome;
      try {
        round(UniqueId.parse(words[0]), plan, Integer.parseInt(words[3]), in);
        outcome = "ok";
      } catch (NcclException | AssertionError e) {
        outcome = "bad " + e.toString().replace('\n', ' ');
      }
      System.out.println(outcome);
    }
  }

  private static String footprint() throws IOException {
    long threads =
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().startsWith("nccl4j-"))
            .count();
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
      return descriptors.count() + " " + threads;
    }
  }

  private static void round(UniqueId id, Plan plan, int rank, BufferedReader in)
      throws IOException {
    if (!plan.fault.isOfNetwork() || rank != plan.victim) {
      play(id, plan, rank, in);
      return;
    }
    try (Cables cables = new Cables()) {
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
            operation(left, fresh, after);
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
        operation(comm, stream, random);
      }
      if (plan.fault == Fault.NONE) {
        return false;
      }
      if (comm.rank() == plan.victim) {
        suffer(comm, plan.fault, in);
        if (!plan.fault.isOfNetwork()) {
          return false;
        }
      }
      for (int n = 0; n < 1000; n++) {
        operation(comm, stream, random);
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
      comm.allReduce(one, one, 1, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
    }
  }

  private static void suffer(Communicator comm, Fault fault, BufferedReader in) throws IOException {
    switch (fault) {
      case ABORT -> comm.abort();
      case KILL, STOP -> {
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

  private static void operation(Communicator comm, DeviceStream stream, Random random) {
    int count = 1 + (random.nextBoolean() ? random.nextInt(64) : random.nextInt(40_000));
    int n = comm.nRanks();
    int root = random.nextInt(n);
    int kind = random.nextInt(4);
    try (DeviceMemory mine = Ranks.floats(count, i -> comm.rank() + i % 100);
        DeviceMemory all = Ranks.floats(count * n, i -> -1)) {
      switch (kind) {
        case 0 -> comm.allReduce(mine, mine, count, DataType.FLOAT32, RedOp.SUM, stream);
        case 1 -> comm.broadcast(mine, mine, count, DataType.FLOAT32, root, stream);
        case 2 -> comm.allGather(mine, all, count, DataType.FLOAT32, stream);
        default -> {
          comm.allGather(mine, all, count, DataType.FLOAT32, stream);
          comm.allToAll(all, all.slice(0, 0), 0, DataType.FLOAT32, stream);
        }
      }
      stream.synchronize();
      float[] got = Ranks.floats(kind < 2 ? mine : all);
      for (int i = 0; i < got.length; i++) {
        int element = i % count;
        float expected =
            switch (kind) {
              case 0 -> n * (n - 1) / 2 + n * (element % 100);
              case 1 -> root + element % 100;
              default -> i / count + element % 100;
            };
        if (got[i] != expected) {
          throw new AssertionError(
              "element %d of kind %d is %s, not %s".formatted(i, kind, got[i], expected));
        }
      }
    }
  }
}
