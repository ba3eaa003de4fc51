package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.check.DataSet;
import org.nccl4j.it.perf.workload.Segment;

/**
 * All-gather, reduce-scatter, all-to-all, gather and scatter of parts of random sizes, some of them
 * nothing, in poisoned memory of which nothing but the parts may change; compared with what the
 * host computes.
 */
abstract class VariableParts {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int EDGE_BYTES = 4096;

  private static final int MOST_LAUNCHED = 64;

  /** Bytes from a rank to a rank, in exchanges of changing counts. */
  private static final int MOST_EXCHANGED = 16;

  /** One for each rank. */
  abstract List<Device> devices();

  /** The number of rounds. */
  abstract int rounds();

  /** Of a part, at most. */
  abstract int mostElements();

  @Test
  void randomParts() throws Exception {
    System.out.println("seed " + SEED);
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(30));
    try (Ranks ranks = new Ranks(Communicator.initAll(devices(), config))) {
      ranks.run(
          (comm, stream) -> {
            try (Memory memory = new Memory(comm, mostElements())) {
              for (int round = 0; round < rounds(); round++) {
                new Round(comm, stream, memory, round).run();
              }
            }
          });
    }
  }

  /**
   * All-to-alls of counts that change from call to call.
   *
   * @param from the first call
   * @param together calls of a group; 1 for no groups
   */
  record Calls(int from, int to, int together) {}

  static void exchange(Ranks ranks, Calls calls) throws Exception {
    ranks.run(
        (comm, stream) -> {
          long bytes = (long) comm.nRanks() * MOST_EXCHANGED;
          try (DeviceMemory send = comm.device().allocate(bytes);
              DeviceMemory recv = comm.device().allocate(bytes)) {
            int launched = 0;
            for (int call = calls.from; call < calls.to; call += calls.together) {
              int first = call;
              if (calls.together == 1) {
                exchange(comm, stream, send, recv, first);
              } else {
                Group.run(
                    () -> {
                      for (int i = 0; i < calls.together; i++) {
                        exchange(comm, stream, send, recv, first + i);
                      }
                    });
              }
              if (++launched % MOST_LAUNCHED == 0) {
                stream.synchronize(); // else a GPU's tables are as many as the host is ahead
              }
            }
            stream.synchronize();
          }
        });
  }

  private static void exchange(
      Communicator comm, DeviceStream stream, DeviceMemory send, DeviceMemory recv, int call) {
    int n = comm.nRanks();
    Random random = new Random(call);
    long[] outgoing = new long[n];
    long[] incoming = new long[n];
    long[] offsets = new long[n];
    for (int from = 0; from < n; from++) {
      offsets[from] = (long) from * MOST_EXCHANGED;
      for (int to = 0; to < n; to++) {
        int count = 1 + random.nextInt(MOST_EXCHANGED);
        if (from == comm.rank()) {
          outgoing[to] = count;
        }
        if (to == comm.rank()) {
          incoming[from] = count;
        }
      }
    }
    comm.allToAllV(send, outgoing, offsets, recv, incoming, offsets, DataType.INT8, stream);
  }

  /** A rank's: for each of what is sent and received, plain memory and a window. */
  private static final class Memory implements AutoCloseable {
    private final Communicator comm;
    private final List<DeviceMemory> all = new ArrayList<>();
    private final List<Window> windows = new ArrayList<>();

    Memory(Communicator comm, int mostElements) {
      this.comm = comm;
      // Parts lie with gaps as large as a part may be, and eight bytes is the largest element.
      long bytes = 2L * 8 * comm.nRanks() * mostElements + 2 * EDGE_BYTES;
      for (int which = 0; which < 2; which++) {
        all.add(comm.device().allocate(bytes));
      }
      for (int which = 0; which < 2; which++) {
        all.add(comm.device().memAlloc(bytes));
        windows.add(comm.registerWindow(all.get(2 + which)));
      }
    }

    DeviceMemory sent(boolean window) {
      return all.get(window ? 2 : 0);
    }

    DeviceMemory received(boolean window) {
      return all.get(window ? 3 : 1);
    }

    @Override
    public void close() {
      windows.forEach(comm::deregisterWindowOnAllRanks);
      all.forEach(DeviceMemory::close);
    }
  }

  /** A round of one rank; all ranks draw the same. */
  private final class Round {
    private final Communicator comm;
    private final DeviceStream stream;
    private final int n;
    private final int me;
    private final int number;
    private final Random random;
    private final DataType type;
    private final RedOp op;
    private final DeviceMemory send;
    private final DeviceMemory recv;
    private final DataSet data;

    /** Elements from each rank to each. */
    private final long[][] counts;

    /** Bytes before the output. */
    private int edge;

    Round(Communicator comm, DeviceStream stream, Memory memory, int number) {
      this.comm = comm;
      this.stream = stream;
      this.n = comm.nRanks();
      this.me = comm.rank();
      this.number = number;
      this.random = new Random(SEED + number);
      this.type = DataType.values()[random.nextInt(DataType.values().length)];
      this.op = RedOp.values()[random.nextInt(RedOp.values().length)];
      boolean window = random.nextBoolean();
      this.counts = new long[n][];
      for (int rank = 0; rank < n; rank++) {
        counts[rank] = random.longs(n, 0, mostElements()).toArray();
        for (int to = 0; to < n; to++) {
          counts[rank][to] = random.nextInt(4) == 0 ? 0 : counts[rank][to] >> random.nextInt(17);
        }
      }
      long reach = 2L * n * mostElements();
      this.data = new DataSet(type, op, n, reach, SEED + number);
      this.send = memory.sent(window).slice(0, reach * type.bytes());
      this.recv = memory.received(window);
      data.fillSend(me, send);
    }

    void run() {
      gather();
      scatter();
      exchange();
      gatherAtRoot();
      scatterFromRoot();
    }

    private long[] packed(long[] parts) {
      return offsets(parts, /* gaps= */ false);
    }

    private long[] offsets(long[] parts, boolean gaps) {
      long[] offsets = new long[n];
      long next = 0;
      for (int rank = 0; rank < n; rank++) {
        next += gaps ? random.nextInt(100) : 0;
        offsets[rank] = next;
        next += parts[rank];
      }
      return offsets;
    }

    private void gather() {
      long[] parts = counts[0];
      boolean gaps = random.nextBoolean();
      long[] offsets = offsets(parts, gaps);
      DeviceMemory out = output();
      comm.allGatherV(send, out, parts, gaps ? offsets : null, type, stream);
      List<Segment> expected = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        expected.add(new Segment(offsets[rank], parts[rank], rank, 0));
      }
      check("all_gather_v", out, expected);
    }

    /** In place on all ranks in half of the rounds: the result is the rank's part of its data. */
    private void scatter() {
      long[] parts = counts[n - 1];
      long offset = packed(parts)[me];
      Segment mine = new Segment(0, parts[me], Segment.COMBINED, offset);
      DeviceMemory out = output();
      if (random.nextBoolean() && parts[me] > 0) {
        DeviceMemory part = send.slice(offset * type.bytes(), parts[me] * type.bytes());
        comm.reduceScatterV(send, part, parts, type, op, stream);
        stream.synchronize();
        CheckResult verdict = data.verify(mine, part);
        String where = "reduce_scatter_v in place, round %d, counts %s".formatted(number, rows());
        assertEquals(0, verdict.wrong(), where + ": " + verdict.first());
        CheckResult before = data.verify(new Segment(0, offset, me, 0), send);
        assertEquals(0, before.wrong(), where + " changed what is before: " + before.first());
        data.fillSend(me, send);
      } else {
        comm.reduceScatterV(send, out, parts, type, op, stream);
        check("reduce_scatter_v", out, List.of(mine));
      }
    }

    private void exchange() {
      long[][] from = new long[n][];
      boolean gaps = random.nextBoolean();
      for (int rank = 0; rank < n; rank++) {
        from[rank] = offsets(counts[rank], gaps);
      }
      long[] parts = new long[n];
      for (int rank = 0; rank < n; rank++) {
        parts[rank] = counts[rank][me];
      }
      long[] offsets = offsets(parts, gaps);
      DeviceMemory out = output();
      comm.allToAllV(
          send,
          counts[me],
          gaps ? from[me] : null,
          out,
          parts,
          gaps ? offsets : null,
          type,
          stream);
      List<Segment> expected = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        expected.add(new Segment(offsets[rank], parts[rank], rank, from[rank][me]));
      }
      check("all_to_all_v", out, expected);
    }

    /** In place at the root in half of the rounds. */
    private void gatherAtRoot() {
      long[] parts = counts[0];
      int root = random.nextInt(n);
      boolean gaps = random.nextBoolean();
      boolean inPlace = random.nextBoolean() && me == root && parts[me] > 0;
      long[] offsets = offsets(parts, gaps);
      DeviceMemory out = output();
      DeviceMemory mine = send;
      if (inPlace) {
        mine = out.slice(offsets[me] * type.bytes(), parts[me] * type.bytes());
        data.fillSend(me, mine);
      }
      comm.gatherV(mine, me == root ? out : null, parts, gaps ? offsets : null, type, root, stream);
      List<Segment> expected = new ArrayList<>();
      for (int rank = 0; me == root && rank < n; rank++) {
        expected.add(new Segment(offsets[rank], parts[rank], rank, 0));
      }
      check("gather_v", out, expected);
    }

    /** In place at the root in half of the rounds: then its send buffer stays as it is. */
    private void scatterFromRoot() {
      long[] parts = counts[n - 1];
      int root = random.nextInt(n);
      boolean gaps = random.nextBoolean();
      boolean inPlace = random.nextBoolean() && me == root && parts[me] > 0;
      long[] offsets = offsets(parts, gaps);
      DeviceMemory out = output();
      DeviceMemory mine =
          inPlace ? send.slice(offsets[me] * type.bytes(), parts[me] * type.bytes()) : out;
      comm.scatterV(
          me == root ? send : null, mine, parts, gaps ? offsets : null, type, root, stream);
      Segment received = new Segment(0, parts[me], root, offsets[me]);
      check("scatter_v", out, inPlace ? List.of() : List.of(received));
      CheckResult sent = data.verify(new Segment(0, offsets[me] + parts[me], me, 0), send);
      assertEquals(0, sent.wrong(), "scatter_v changed what is sent: " + sent.first());
    }

    /** Poisoned, with an edge before and behind. */
    private DeviceMemory output() {
      DataSet.poison(recv);
      edge = EDGE_BYTES - random.nextInt(16) * type.bytes();
      return recv.slice(edge, recv.size() - 2 * EDGE_BYTES);
    }

    private void check(String what, DeviceMemory out, List<Segment> expected) {
      stream.synchronize();
      String where =
          "%s of %s %s, round %d, rank %d of %d, counts %s"
              .formatted(what, type, op, number, me, n, rows());
      CheckResult verdict = CheckResult.RIGHT;
      long done = 0;
      long end = edge + out.size();
      long damaged =
          DataSet.damage(recv.slice(0, edge)) + DataSet.damage(recv.slice(end, recv.size() - end));
      for (Segment segment : expected) {
        verdict = verdict.and(data.verify(segment, out));
        damaged += damage(out, done, segment.at());
        done = segment.at() + segment.count();
      }
      damaged += damage(out, done, out.size() / type.bytes());
      assertEquals(0, verdict.wrong(), where + ": " + verdict.first());
      assertEquals(0, damaged, where + ": bytes outside the parts");
    }

    private long damage(DeviceMemory out, long begin, long end) {
      return begin == end
          ? 0
          : DataSet.damage(out.slice(begin * type.bytes(), (end - begin) * type.bytes()));
    }

    private List<String> rows() {
      return Arrays.stream(counts).map(Arrays::toString).toList();
    }
  }
}
