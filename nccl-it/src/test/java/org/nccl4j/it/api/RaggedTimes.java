package org.nccl4j.it.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.RaggedExchange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;

/**
 * Times of ragged exchanges on all GPUs: {@code RaggedTimes [hosts] [ELEMENT_BYTES]
 * [MAX_COUNT...]}. Beside them those of allToAllV, whose counts the host knows; of allToAllV after
 * the host has read the counts from the device and exchanged them by an all-gather; and of an
 * all-to-all of as many bytes. Counts are random, the same in all of them; allToAllV and allToAll
 * have windows. "graph" is a call's time in a graph of several, "eager" its time by the host's
 * clock in calls in a row, each with a wait where the host reads counts. The median of five. With
 * "hosts" every GPU counts as a host of its own. Run by hand; {@link RaggedGpuTest} checks.
 */
final class RaggedTimes {
  private static final int ROUNDS = 5;
  private static final int CALLS = 20;

  /** Bytes of an all-to-all for each rank are a multiple of so many. */
  private static final long LEAST_BYTES = 16;

  /** Rounds before those that count, for the host's compiler. */
  private static final int WARM_UP = 10;

  private RaggedTimes() {}

  public static void main(String[] all) throws Exception {
    boolean hosts = all.length > 0 && all[0].equals("hosts");
    long[] numbers = Arrays.stream(all).skip(hosts ? 1 : 0).mapToLong(Long::parseLong).toArray();
    int elementBytes = numbers.length > 0 ? (int) numbers[0] : 14336;
    long[] counts =
        numbers.length > 1
            ? Arrays.copyOfRange(numbers, 1, numbers.length)
            : new long[] {1, 16, 128, 1024, 8192};
    List<CudaDevice> devices = Devices.cuda().list();
    try (Ranks ranks =
        hosts
            ? Ranks.onHosts(
                "abcdefgh".substring(0, devices.size()), devices, CommunicatorConfig.defaults())
            : new Ranks(Communicator.initAll(List.copyOf(devices)))) {
      for (long count : counts) {
        ranks.run(
            (comm, stream) -> {
              RaggedConfig sizes =
                  new RaggedConfig(elementBytes, count, comm.nRanks() * count, DataType.INT64);
              try (Calls calls = new Calls(comm, (CudaStream) stream, sizes)) {
                calls.print();
              }
            });
      }
    }
    System.exit(0);
  }

  /** The calls of a rank that are measured. */
  private static final class Calls implements AutoCloseable {
    private final Communicator comm;
    private final CudaStream stream;
    private final RaggedConfig sizes;
    private final RaggedExchange exchange;
    private final DeviceMemory send;
    private final DeviceMemory recv;
    private final DeviceMemory counts;
    private final DeviceMemory allCounts;

    /** Bytes for each rank, and from each. */
    private final long[] sent;

    private final long[] received;

    /** Bytes that ranks exchange on average. */
    private final long average;

    Calls(Communicator comm, CudaStream stream, RaggedConfig sizes) {
      this.comm = comm;
      this.stream = stream;
      this.sizes = sizes;
      int n = comm.nRanks();
      int me = comm.rank();
      CudaDevice device = (CudaDevice) comm.device();
      exchange = comm.createRaggedExchange(sizes);
      long most = n * Math.max(LEAST_BYTES, sizes.maxCount() * sizes.elementBytes());
      send = device.memAlloc(most);
      recv = device.memAlloc(most);
      comm.registerWindow(send);
      comm.registerWindow(recv);
      counts = device.allocate(8L * n);
      allCounts = device.allocate(8L * n * n);
      Random random = new Random(sizes.maxCount());
      sent = new long[n];
      received = new long[n];
      ByteBuffer mine = ByteBuffer.allocate(8 * n).order(ByteOrder.nativeOrder());
      long sum = 0;
      for (int source = 0; source < n; source++) {
        for (int target = 0; target < n; target++) {
          long count = random.nextLong(sizes.maxCount() + 1);
          sum += count;
          if (source == me) {
            mine.putLong(count);
            sent[target] = count * sizes.elementBytes();
          }
          if (target == me) {
            received[source] = count * sizes.elementBytes();
          }
        }
      }
      average = Math.max(1, sum * sizes.elementBytes() / n / n / LEAST_BYTES) * LEAST_BYTES;
      counts.write(0, mine.flip());
    }

    void print() {
      StringBuilder text = new StringBuilder();
      text.append(
          "%d ranks, up to %d elements of %d bytes for each, %d bytes on average:%n"
              .formatted(comm.nRanks(), sizes.maxCount(), sizes.elementBytes(), average));
      if (exchange.isCapturable()) {
        text.append(
            "  graph: ragged %.1f us, allToAllV %.1f us, allToAll %.1f us; ragged all-gather %.1f us%n"
                .formatted(
                    inAGraph(() -> exchange.allToAll(send, counts, stream)),
                    inAGraph(this::allToAllV),
                    inAGraph(this::allToAll),
                    inAGraph(() -> exchange.allGather(send, counts, stream))));
      }
      text.append(
          "  eager: ragged %.1f us, allToAllV %.1f us, counts to the host and allToAllV %.1f us,"
              .formatted(
                  inARow(() -> exchange.allToAll(send, counts, stream)),
                  inARow(this::allToAllV),
                  inARow(this::readAndAllToAllV)));
      text.append(" allToAll %.1f us".formatted(inARow(this::allToAll)));
      if (comm.rank() == 0) {
        System.out.println(text);
      }
    }

    private double inARow(Runnable call) {
      return new StreamTimes(stream, ROUNDS).inARow(WARM_UP, CALLS, call);
    }

    private double inAGraph(Runnable call) {
      call.run(); // windows are agreed on outside a capture
      stream.synchronize();
      return new StreamTimes(stream, ROUNDS).inAGraph(CALLS, call);
    }

    private void allToAllV() {
      comm.allToAllV(send, sent, null, recv, received, null, DataType.UINT8, stream);
    }

    private void allToAll() {
      comm.allToAll(send, recv, average, DataType.UINT8, stream);
    }

    /** A program without device-side counts. */
    private void readAndAllToAllV() {
      int n = comm.nRanks();
      comm.allGather(counts, allCounts, n, DataType.INT64, stream);
      stream.synchronize();
      ByteBuffer read = ByteBuffer.allocate(8 * n * n).order(ByteOrder.nativeOrder());
      allCounts.read(0, read);
      long[] to = new long[n];
      long[] from = new long[n];
      for (int rank = 0; rank < n; rank++) {
        to[rank] = read.getLong(8 * (comm.rank() * n + rank)) * sizes.elementBytes();
        from[rank] = read.getLong(8 * (rank * n + comm.rank())) * sizes.elementBytes();
      }
      comm.allToAllV(send, to, null, recv, from, null, DataType.UINT8, stream);
    }

    @Override
    public void close() {
      exchange.close();
      counts.close();
      allCounts.close();
    }
  }
}
