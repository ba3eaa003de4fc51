package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.nvls.ArchivedClasses;

/** The JVM of a rank on the host device in a process of its own, which starts and ends soon. */
public final class RankJvm {
  /** Less to start, and few methods that run often. */
  private static final List<String> SHORT_LIVED =
      List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData");

  /** Ranks start beside many others on a busy machine. Goes before the environment. */
  public static final String PATIENT = "-DNCCL4J_INIT_TIMEOUT=5m";

  private static final int PATIENCE_SECONDS = 300;

  private RankJvm() {}

  /**
   * The beginning of a command, before the main class: Java, its options and its class path.
   *
   * @param also folders behind the class path of this test
   */
  public static List<String> command(Path... also) throws Exception {
    List<String> options = archived();
    String classPath = options.remove(options.size() - 1);
    options.add(
        Stream.concat(Stream.of(classPath), Stream.of(also).map(Path::toString))
            .collect(Collectors.joining(File.pathSeparator)));
    return java(options);
  }

  /** Returns options of a JVM with archived classes; the last is its class path. */
  public static List<String> archived() throws Exception {
    return new ArrayList<>(ArchivedClasses.options(ChaosRank.classPath(), RankJvm::train));
  }

  private static List<String> java(List<String> options) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(SHORT_LIVED);
    command.add(PATIENT);
    if (Runtime.version().feature() >= 24) {
      command.add("--enable-native-access=ALL-UNNAMED");
    }
    command.addAll(options);
    return command;
  }

  /**
   * Waits until a rank says "ready", and leaves out what it says before. The rank is killed if it
   * does not for too long.
   *
   * @param rank whose output nobody else reads
   */
  public static void awaitReady(Process rank) throws Exception {
    List<String> said = new CopyOnWriteArrayList<>();
    FutureTask<Boolean> reading = new FutureTask<>(() -> isReady(rank.inputReader(), said));
    Thread reader = new Thread(reading, "rank-reader");
    reader.setDaemon(true); // no deadline or interrupt ends the read of a pipe
    reader.start();
    boolean ready = false;
    try {
      ready = reading.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
      assertTrue(ready, () -> "a rank ends before it is ready: " + said);
    } catch (TimeoutException e) {
      throw new AssertionError("a rank is not ready in time: " + said, e);
    } finally {
      if (!ready) {
        rank.destroyForcibly();
      }
    }
  }

  private static boolean isReady(BufferedReader out, List<String> said) throws IOException {
    String line = out.readLine();
    while (line != null && !line.equals("ready")) {
      said.add(line);
      line = out.readLine();
    }
    return line != null;
  }

  /** Two ranks, of which the first has the options. */
  private static void train(List<String> options) throws Exception {
    UniqueId id = UniqueId.create();
    List<Process> ranks = new ArrayList<>();
    try {
      for (int rank = 0; rank < 2; rank++) {
        List<String> command = java(rank == 0 ? options : List.of("-cp", ChaosRank.classPath()));
        command.addAll(List.of(RankJvm.class.getName(), id.toString(), Integer.toString(rank)));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().keySet().removeIf(name -> name.startsWith("NCCL"));
        ranks.add(builder.inheritIO().start());
      }
      for (Process rank : ranks) {
        assertTrue(rank.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS), "a rank does not end");
        assertEquals(0, rank.exitValue(), "a rank fails");
      }
    } finally {
      ranks.forEach(Process::destroyForcibly);
    }
  }

  /** A rank of two; arguments: id, rank. */
  public static void main(String[] arguments) {
    int rank = Integer.parseInt(arguments[1]);
    try (Communicator comm =
            Communicator.initRank(2, UniqueId.parse(arguments[0]), rank, Devices.host());
        DeviceStream stream = Devices.host().createStream();
        DeviceMemory data = Devices.host().allocate(1 << 10)) {
      comm.allReduce(data, data, 256, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
    }
  }
}
