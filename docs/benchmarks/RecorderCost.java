import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import jdk.jfr.Configuration;
import jdk.jfr.EventType;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Recording;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.Switch;

/**
 * Measures the cost of the flight recorder and of Java Flight Recorder for an all-reduce of two
 * ranks, as threads or as processes. Started by recorder-cost.sh, which builds classes in which
 * what records can be switched off while they run: by a branch, so that both ways are the same
 * compiled code on the same memory.
 *
 * <p>Short blocks with and without take turns, in fours (without, with, with, without, and the
 * other way round in every second four), so that a drift of the machine is on both sides. The
 * figure is the median of the fours' relative differences; the interval is that of its order
 * statistics, of 95 %, and takes nothing for granted of how they are distributed. "Nothing against
 * nothing" is the same with no difference at all, and says what the method itself makes of noise.
 */
public class RecorderCost {
  private static final boolean OPERATIONS_ALONE = "operations".equals(System.getenv("PART"));

  /** The recorders that are on in the measured blocks. */
  enum Kind {
    NOTHING("nothing against nothing"),
    RECORDER("links".equals(System.getenv("PART")) ? "count of links" : "flight recorder"),
    JFR("JFR with its default settings"),
    OWN("JFR with nccl4j's events alone"),
    BARE("JFR with its default settings, of a loop without operations"),
    OPERATIONS("operations recorded as by nccl trace");

    final String text;

    Kind(String text) {
      this.text = text;
    }

    boolean records(boolean with) {
      return usesJfr() || with && this != NOTHING;
    }

    boolean usesJfr() {
      return ordinal() >= JFR.ordinal() && this != OPERATIONS;
    }

    int fours(int shortOnes, int withJfr) {
      if (this == OPERATIONS || this == RECORDER) {
        return OPERATIONS_ALONE == (this == OPERATIONS) ? shortOnes : 0;
      }
      return this == NOTHING ? shortOnes : OPERATIONS_ALONE ? 0 : withJfr;
    }

    Recording recording() throws Exception {
      Recording recording =
          this == OWN || this == OPERATIONS
              ? new Recording()
              : new Recording(Configuration.getConfiguration("default"));
      if (this == OPERATIONS) {
        recording.enable("org.nccl4j.Operation");
      }
      if (this == OWN) {
        for (EventType type : FlightRecorder.getFlightRecorder().getEventTypes()) {
          if (!type.getName().startsWith("org.nccl4j.")) {
            recording.disable(type.getName());
          }
        }
      }
      return recording;
    }
  }

  /** The observer, which looks every 50 ms, has seen then whether operations are asked for. */
  private static final int OBSERVED_MILLIS = 150;

  /** True if no operation has the shape of the one before it. */
  private static final boolean ALTERNATES = "yes".equals(System.getenv("ALTERNATES"));

  private final Communicator comm;
  private final boolean leads;
  private final boolean ownProcess;
  private final boolean ahead;
  private final int bytes;
  private final int operations;
  private final int operationsWithJfr;
  private final int[] fours;
  private DeviceStream stream;
  private DeviceMemory data;
  private Recording recording;
  private long state = 1;

  private RecorderCost(Communicator comm, boolean ownProcess, String[] args) {
    this.comm = comm;
    this.leads = comm.rank() == 0;
    this.ownProcess = ownProcess;
    this.ahead = args[0].equals("gpus");
    this.bytes = Integer.parseInt(args[1]);
    this.operations = Integer.parseInt(args[2]);
    int shortOnes = Integer.parseInt(args[3]);
    this.operationsWithJfr = Integer.parseInt(args[4]);
    int withJfr = Integer.parseInt(args[5]);
    this.fours =
        Stream.of(Kind.values()).mapToInt(kind -> kind.fours(shortOnes, withJfr)).toArray();
  }

  /**
   * Arguments: threads, gpus (threads, operations one behind the other), processes or alone (one
   * rank), bytes, operations of a block, fours, both again with JFR.
   */
  public static void main(String[] args) throws Exception {
    if (args[0].equals("rank")) {
      UniqueId id = UniqueId.parse(args[6]);
      try (Communicator comm = Communicator.initRank(2, id, 1, Devices.host())) {
        new RecorderCost(comm, true, args).run();
      }
    } else if (args[0].equals("processes")) {
      UniqueId id = UniqueId.create();
      List<String> command =
          new ArrayList<>(
              List.of(
                  ProcessHandle.current().info().command().orElseThrow(),
                  "-cp",
                  System.getProperty("java.class.path"),
                  RecorderCost.class.getName()));
      command.addAll(List.of("rank", args[1], args[2], args[3], args[4], args[5], id.toString()));
      Process other = new ProcessBuilder(command).inheritIO().start();
      try (Communicator comm = Communicator.initRank(2, id, 0, Devices.host())) {
        new RecorderCost(comm, true, args).run();
      }
      other.waitFor();
    } else if (args[0].equals("alone")) {
      try (Communicator comm = Communicator.initAll(List.of(Devices.host())).get(0)) {
        new RecorderCost(comm, false, args).run();
      }
    } else {
      List<Device> devices =
          args[0].equals("gpus")
              ? List.<Device>copyOf(Devices.cuda().list()).subList(0, 2)
              : Collections.nCopies(2, Devices.host());
      List<Communicator> ranks = Communicator.initAll(devices);
      Thread second = new Thread(() -> new RecorderCost(ranks.get(1), false, args).run());
      second.start();
      new RecorderCost(ranks.get(0), false, args).run();
      second.join();
      ranks.forEach(Communicator::close);
    }
  }

  private void run() {
    try (DeviceStream itsStream = comm.device().createStream();
        DeviceMemory itsData = comm.device().allocate(bytes)) {
      stream = itsStream;
      data = itsData;
      data.write(0, ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder()));
      Kind shortKind = OPERATIONS_ALONE ? Kind.OPERATIONS : Kind.RECORDER;
      if (OPERATIONS_ALONE && (leads || ownProcess)) {
        recording = shortKind.recording();
        recording.start();
        Thread.sleep(OBSERVED_MILLIS);
      }
      for (int four = 0; four < Math.max(1, fours[0] / 20); four++) {
        shortBlocks(shortKind, four);
      }
      double[][] differences = new double[fours.length][];
      double[][] without = new double[fours.length][];
      for (Kind kind : Kind.values()) {
        differences[kind.ordinal()] = new double[fours[kind.ordinal()]];
        without[kind.ordinal()] = new double[fours[kind.ordinal()]];
      }
      for (int four = 0; four < fours[0]; four++) {
        for (Kind kind : List.of(Kind.NOTHING, shortKind)) {
          note(kind, four, shortBlocks(kind, four), differences, without);
        }
      }
      for (Kind kind :
          List.of(Kind.values())
              .subList(
                  Kind.JFR.ordinal(), ahead ? Kind.OWN.ordinal() : Kind.OPERATIONS.ordinal())) {
        for (int four = 0; four < fours[kind.ordinal()]; four++) {
          note(kind, four, longBlocks(kind, four), differences, without);
        }
      }
      if (recording != null) {
        recording.close();
      }
      for (Kind kind : Kind.values()) {
        if (leads && differences[kind.ordinal()].length > 0) {
          say(kind, differences[kind.ordinal()], without[kind.ordinal()]);
        }
      }
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  private static boolean isWith(int four, int block) {
    return (block == 1 || block == 2) == (four % 2 == 0);
  }

  private static void note(
      Kind kind, int four, double[] micros, double[][] differences, double[][] without) {
    double[] sums = new double[2];
    for (int block = 0; block < 4; block++) {
      sums[isWith(four, block) ? 1 : 0] += micros[block] / 2;
    }
    differences[kind.ordinal()][four] = sums[1] / sums[0] - 1;
    without[kind.ordinal()][four] = sums[0];
  }

  private double[] shortBlocks(Kind kind, int four) {
    double[] micros = new double[4];
    for (int block = 0; block < 4; block++) {
      Switch.on = kind.records(isWith(four, block));
      micros[block] = reduce(operations);
    }
    return micros;
  }

  /**
   * Longer ones, since a recording is started and stopped for each. What is compiled anew after a
   * start or a stop is over when a third as many operations have run, which do not count; blocks
   * without do the same.
   */
  private double[] longBlocks(Kind kind, int four) throws Exception {
    double[] micros = new double[4];
    int counted = operationsWithJfr;
    for (int block = 0; block < 4; block++) {
      boolean with = isWith(four, block);
      Switch.on = kind.records(with);
      if (with && (leads || ownProcess)) {
        recording = kind.recording();
        recording.start();
      }
      Thread.sleep(OBSERVED_MILLIS);
      if (kind == Kind.BARE) {
        turn(counted / 3);
        micros[block] = turn(counted);
      } else {
        reduce(Math.max(1, counted / 3));
        micros[block] = reduce(counted);
      }
      if (recording != null) {
        recording.close();
        recording = null;
      }
      reduce(1);
    }
    return micros;
  }

  /** Microseconds of each. The other rank does the same, so that it is at the same block. */
  private double reduce(int times) {
    long start = System.nanoTime();
    for (int n = 0; n < times; n++) {
      RedOp op = ALTERNATES && n % 2 == 1 ? RedOp.MIN : RedOp.MAX;
      comm.allReduce(data, data, bytes / 4, DataType.FLOAT32, op, stream);
      if (!ahead) {
        stream.synchronize();
      }
    }
    stream.synchronize();
    return (System.nanoTime() - start) / 1e3 / times;
  }

  /**
   * Microseconds of a turn of a loop about as long as the quickest operation, of nothing but
   * registers.
   */
  private double turn(int times) {
    long start = System.nanoTime();
    for (int n = 0; n < times * 32L; n++) {
      state ^= state << 13;
      state ^= state >>> 7;
      state ^= state << 17;
    }
    return (System.nanoTime() - start) / 1e3 / times;
  }

  private void say(Kind kind, double[] differences, double[] without) {
    double[] sorted = differences.clone();
    Arrays.sort(sorted);
    double[] times = without.clone();
    Arrays.sort(times);
    int half = (int) Math.ceil(0.98 * Math.sqrt(sorted.length));
    int middle = sorted.length / 2;
    System.out.printf(
        Locale.ROOT,
        "%d bytes, %s: %+.2f %% (%+.2f to %+.2f) of %.4f us, %d fours%n",
        bytes,
        kind.text,
        100 * sorted[middle],
        100 * sorted[Math.max(0, middle - half)],
        100 * sorted[Math.min(sorted.length - 1, middle + half)],
        times[middle],
        sorted.length);
  }
}
