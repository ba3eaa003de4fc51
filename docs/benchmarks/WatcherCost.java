import java.io.BufferedReader;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Measures the cost of {@code nccl top} for the process that it watches: all-reduces of ranks of
 * the host device, a thread each, with and without the watcher by turns. The watcher runs all the
 * time, and is stopped (SIGSTOP) in the blocks without it, so that its start does not count.
 *
 * <p>Blocks with and without take turns in fours (without, with, with, without, and the other way
 * round in every second four), so that a drift of the machine is on both sides. The figure is the
 * median of the fours' relative differences, with its interval of 95 % by order statistics. Every
 * other four is "nothing against nothing", in which the watcher stays stopped. The processor's time
 * of rank 0's thread is compared too: other programs change it less.
 */
public class WatcherCost {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final String MAIN = "org.nccl4j.it.cli.Main";

  private final int bytes;
  private final double seconds;
  private final int fours;
  private final List<Process> watchers;
  private final CyclicBarrier barrier;
  private final double[][] micros;
  private final double[][] processor;
  private volatile int operations = 1000;
  private boolean isWatched = true;

  private WatcherCost(String[] args, List<Process> watchers) {
    this.bytes = Integer.parseInt(args[2]);
    this.seconds = Double.parseDouble(args[3]);
    this.fours = Integer.parseInt(args[4]);
    this.watchers = watchers;
    this.barrier = new CyclicBarrier(Integer.parseInt(args[1]));
    this.micros = new double[fours][4];
    this.processor = new double[fours][4];
  }

  /**
   * Arguments: top (as in a terminal) or web (with a page that asks as a browser's does); ranks;
   * bytes; seconds of a block; fours.
   */
  public static void main(String[] args) throws Exception {
    if (args[0].equals("page")) {
      page(args[1]);
      return;
    }
    List<Communicator> ranks =
        Communicator.initAll(Collections.nCopies(Integer.parseInt(args[1]), Devices.host()));
    List<Process> watchers = watch(args[0].equals("web"));
    try {
      WatcherCost cost = new WatcherCost(args, watchers);
      List<Thread> others = new ArrayList<>();
      for (Communicator rank : ranks.subList(1, ranks.size())) {
        others.add(new Thread(() -> cost.run(rank)));
      }
      others.forEach(Thread::start);
      cost.run(ranks.get(0));
      for (Thread other : others) {
        other.join();
      }
      cost.say(args[0], ranks.size());
    } finally {
      watchers.forEach(Process::destroyForcibly);
      ranks.forEach(Communicator::close);
    }
  }

  private static List<Process> watch(boolean web) throws IOException {
    String pid = Long.toString(ProcessHandle.current().pid());
    if (!web) {
      ProcessBuilder top = new ProcessBuilder(java(MAIN, "top", pid));
      return List.of(
          top.redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start());
    }
    Process top =
        new ProcessBuilder(java(MAIN, "top", "--web", "0", pid))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    BufferedReader out = top.inputReader();
    String address = out.readLine().replace("open ", "");
    return List.of(
        top, new ProcessBuilder(java(WatcherCost.class.getName(), "page", address)).start());
  }

  private static List<String> java(String... arguments) {
    List<String> command = new ArrayList<>();
    command.add(ProcessHandle.current().info().command().orElseThrow());
    command.addAll(List.of("-cp", System.getProperty("java.class.path")));
    command.addAll(List.of(arguments));
    return command;
  }

  /** Asks as the page does: for the frame 4 times a second, and for the hosts of a new one. */
  private static void page(String address) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    String last = "";
    while (true) {
      String frame = get(client, address + "frame.json");
      if (!frame.equals(last)) {
        get(client, address + "hosts.json");
        last = frame;
      }
      Thread.sleep(250);
    }
  }

  private static String get(HttpClient client, String address) throws Exception {
    return client
        .send(HttpRequest.newBuilder(URI.create(address)).build(), BodyHandlers.ofString())
        .body();
  }

  private static boolean isWith(int four, int block) {
    return four % 2 == 1 && (block == 1 || block == 2) == (four / 2 % 2 == 0);
  }

  private void run(Communicator comm) {
    try (DeviceStream stream = comm.device().createStream();
        DeviceMemory data = comm.device().allocate(bytes)) {
      // Long enough for the watcher's start and for the compilers.
      for (double warm = 0; warm < 10; warm += 1) {
        double each = reduce(comm, stream, data);
        meet(comm, () -> operations = (int) Math.max(1, 1e6 / each));
      }
      meet(comm, () -> operations = (int) Math.max(1, operations * seconds));
      for (int four = 0; four < fours; four++) {
        for (int block = 0; block < 4; block++) {
          boolean with = isWith(four, block);
          meet(comm, () -> watched(with));
          long before = THREADS.getCurrentThreadCpuTime();
          double each = reduce(comm, stream, data);
          if (comm.rank() == 0) {
            micros[four][block] = each;
            processor[four][block] =
                (THREADS.getCurrentThreadCpuTime() - before) / 1e3 / operations;
          }
        }
      }
    }
  }

  /** Lets rank 0 do something while no rank works. */
  private void meet(Communicator comm, Runnable action) {
    try {
      barrier.await();
      if (comm.rank() == 0) {
        action.run();
      }
      barrier.await();
    } catch (InterruptedException | BrokenBarrierException e) {
      throw new IllegalStateException(e);
    }
  }

  private void watched(boolean watched) {
    try {
      if (watched != isWatched) {
        for (Process each : watchers) {
          String signal = watched ? "-CONT" : "-STOP";
          new ProcessBuilder("kill", signal, Long.toString(each.pid())).start().waitFor();
        }
        isWatched = watched;
      }
      Thread.sleep(100);
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Microseconds of an all-reduce. */
  private double reduce(Communicator comm, DeviceStream stream, DeviceMemory data) {
    int times = operations;
    long start = System.nanoTime();
    for (int n = 0; n < times; n++) {
      comm.allReduce(data, data, bytes / 4, DataType.FLOAT32, RedOp.MAX, stream);
      stream.synchronize();
    }
    return (System.nanoTime() - start) / 1e3 / times;
  }

  private void say(String kind, int ranks) {
    say(kind + ", time", ranks, micros);
    say(kind + ", processor's time of rank 0", ranks, processor);
    watchers.forEach(
        each ->
            System.out.println(
                "the watcher's processor time in all: "
                    + each.info().totalCpuDuration().orElse(Duration.ZERO)));
  }

  private void say(String kind, int ranks, double[][] times) {
    for (int odd = 0; odd < 2; odd++) {
      double[] differences = new double[(fours + 1 - odd) / 2];
      double[] without = new double[differences.length];
      for (int n = 0; n < differences.length; n++) {
        double[] sums = new double[2];
        for (int block = 0; block < 4; block++) {
          sums[isWith(1 + 2 * n, block) ? 1 : 0] += times[odd + 2 * n][block] / 2;
        }
        differences[n] = sums[1] / sums[0] - 1;
        without[n] = sums[0];
      }
      Arrays.sort(differences);
      Arrays.sort(without);
      int half = (int) Math.ceil(0.98 * Math.sqrt(differences.length));
      int middle = differences.length / 2;
      System.out.printf(
          Locale.ROOT,
          "%d ranks, %d bytes, %s: %+.2f %% (%+.2f to %+.2f) of %.4f us, %d fours%n",
          ranks,
          bytes,
          odd == 0 ? "nothing against nothing as " + kind : kind,
          100 * differences[middle],
          100 * differences[Math.max(0, middle - half)],
          100 * differences[Math.min(differences.length - 1, middle + half)],
          without[middle],
          differences.length);
    }
  }
}
