package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.check.DataSet;
import org.nccl4j.it.perf.workload.Segment;

/**
 * Groups of several collectives on all GPUs, whose small ones one kernel runs: random data, odd
 * sizes, in place by chance, with poison around the results. Needs two GPUs.
 */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class FusedGroupGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int GUARD = 64;
  private static final String FUSE = "NCCL4J_GROUP_FUSE";

  private static final CommunicatorConfig CONFIG =
      CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(20));

  private static Ranks gpus(CommunicatorConfig config) {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    return new Ranks(Communicator.initAll(devices, config));
  }

  /** The collectives of a group. */
  private enum Kind {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    BROADCAST
  }

  /**
   * One of the group's collectives on a rank, with its buffers.
   *
   * @param count elements of a rank's part, or of the whole
   */
  private record Call(
      Kind kind, DataType type, RedOp op, int root, int count, boolean inPlace, long seed) {
    static Call random(Random random, DataType type, int n, int bound) {
      Kind kind = Kind.values()[random.nextInt(Kind.values().length)];
      RedOp op = RedOp.values()[random.nextInt(RedOp.values().length)];
      boolean inPlace = random.nextInt(3) == 0 && kind != Kind.ALL_TO_ALL;
      return new Call(
          kind, type, op, random.nextInt(n), 1 + random.nextInt(bound), inPlace, random.nextLong());
    }

    private boolean isOfParts() {
      return kind == Kind.REDUCE_SCATTER || kind == Kind.ALL_TO_ALL;
    }

    private long sendElements(int n) {
      return isOfParts() ? (long) n * count : count;
    }

    private long recvElements(int n) {
      return kind == Kind.ALL_GATHER || kind == Kind.ALL_TO_ALL ? (long) n * count : count;
    }

    /** Bytes of both buffers with what is around them. */
    long bytes(int n) {
      long bytes = (sendElements(n) + recvElements(n)) * type.bytes() + 3 * GUARD;
      return (bytes + 15) / 16 * 16 + 16;
    }

    private boolean reduces() {
      return kind == Kind.ALL_REDUCE || kind == Kind.REDUCE_SCATTER;
    }

    private DataSet data(int n) {
      return new DataSet(type, reduces() ? op : RedOp.SUM, n, sendElements(n), seed);
    }
  }

  /** A call's buffers in a rank's memory. */
  private static final class Place {
    final Call call;
    final Communicator comm;
    final DeviceMemory all;
    final DeviceMemory send;
    final DeviceMemory recv;

    Place(Call call, Communicator comm, DeviceMemory memory, long at) {
      this.call = call;
      this.comm = comm;
      int n = comm.nRanks();
      int element = call.type.bytes();
      long sends = call.sendElements(n) * element;
      long recvs = call.recvElements(n) * element;
      all = memory.slice(at, call.bytes(n));
      if (!call.inPlace) {
        recv = all.slice(GUARD, recvs);
        send = all.slice((2L * GUARD + recvs + element - 1) / element * element, sends);
      } else if (sends < recvs) {
        recv = all.slice(GUARD, recvs);
        send = recv.slice(comm.rank() * sends, sends);
      } else {
        send = all.slice(GUARD, sends);
        recv = sends == recvs ? send : send.slice(comm.rank() * recvs, recvs);
      }
    }

    void fill() {
      DataSet.poison(all);
      call.data(comm.nRanks()).fillSend(comm.rank(), send);
    }

    void launch(DeviceStream stream) {
      switch (call.kind) {
        case ALL_REDUCE -> comm.allReduce(send, recv, call.count, call.type, call.op, stream);
        case ALL_GATHER -> comm.allGather(send, recv, call.count, call.type, stream);
        case REDUCE_SCATTER ->
            comm.reduceScatter(send, recv, call.count, call.type, call.op, stream);
        case ALL_TO_ALL -> comm.allToAll(send, recv, call.count, call.type, stream);
        case BROADCAST -> {
          boolean reads = call.inPlace || comm.rank() == call.root;
          comm.broadcast(reads ? send : null, recv, call.count, call.type, call.root, stream);
        }
        default -> throw new AssertionError(call.kind);
      }
    }

    void check() {
      int n = comm.nRanks();
      long count = call.count;
      long part = comm.rank() * count;
      DataSet data = call.data(n);
      CheckResult verdict = CheckResult.RIGHT;
      if (call.reduces()) {
        long from = call.isOfParts() ? part : 0;
        verdict = data.verify(new Segment(0, count, Segment.COMBINED, from), recv);
      } else if (call.kind == Kind.BROADCAST) {
        verdict = data.verify(new Segment(0, count, call.root, 0), recv);
      } else {
        for (int source = 0; source < n; source++) {
          long from = call.isOfParts() ? part : 0;
          verdict =
              verdict.and(data.verify(new Segment(source * count, count, source, from), recv));
        }
      }
      assertEquals("", verdict.first(), () -> call + " on rank " + comm.rank());
      long damage = DataSet.damage(all.slice(0, GUARD));
      if (!call.inPlace) {
        damage += DataSet.damage(all.slice(GUARD + recv.size(), GUARD));
      }
      assertEquals(0, damage, () -> "bytes around the result of " + call);
    }
  }

  private static final int[] SMALL = {5, 300, 300, 5000, 40_000};
  private static final int[] LARGE = {5000, 300_000, 1_000_000};

  private static List<Call> calls(Random random, int n, int size, DataType only) {
    return calls(random, n, size, only, SMALL);
  }

  /** Random calls, each of some count of elements at most. */
  private static List<Call> calls(Random random, int n, int size, DataType only, int[] counts) {
    List<Call> calls = new ArrayList<>();
    DataType type = DataType.FLOAT32;
    for (int i = 0; i < size; i++) {
      if (random.nextInt(6) == 0) {
        type = DataType.values()[random.nextInt(DataType.values().length)];
      }
      int bound = counts[random.nextInt(counts.length)];
      calls.add(Call.random(random, only == null ? type : only, n, bound));
    }
    return calls;
  }

  private static List<Place> places(Communicator comm, DeviceMemory memory, List<Call> calls) {
    List<Place> places = new ArrayList<>();
    long at = 0;
    for (Call call : calls) {
      places.add(new Place(call, comm, memory, at));
      at += call.bytes(comm.nRanks());
    }
    return places;
  }

  private static long bytes(List<Call> calls, int n) {
    return calls.stream().mapToLong(call -> call.bytes(n)).sum();
  }

  /** Runs a group on a rank and checks it. */
  private static void run(Communicator comm, List<Call> calls, List<? extends DeviceStream> into) {
    try (DeviceMemory memory = comm.device().allocate(bytes(calls, comm.nRanks()))) {
      List<Place> places = places(comm, memory, calls);
      places.forEach(Place::fill);
      Group.run(
          () -> {
            for (int i = 0; i < places.size(); i++) {
              places.get(i).launch(into.get(i % into.size()));
            }
          });
      into.forEach(DeviceStream::synchronize);
      places.forEach(Place::check);
    }
  }

  @ParameterizedTest
  @EnumSource(DataType.class)
  void groupsOfEveryType(DataType type) throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = gpus(CONFIG)) {
      ranks.run(
          (comm, stream) -> {
            Random random = new Random(SEED + type.ordinal());
            for (int size : new int[] {2, 3, 10, 40}) {
              run(comm, calls(random, comm.nRanks(), size, type), List.of(stream));
            }
          });
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void groupsOfMixedTypesAndSizes(boolean fuses) throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = gpus(CONFIG.with(FUSE, fuses ? "1" : "0"))) {
      ranks.run(
          (comm, stream) -> {
            Random random = new Random(SEED);
            for (int time = 0; time < 30; time++) {
              run(
                  comm,
                  calls(random, comm.nRanks(), 2 + random.nextInt(39), null),
                  List.of(stream));
            }
          });
    }
  }

  /** Those over connections have a part of the channels each, and run at the same time. */
  @Test
  void groupsOfLargeOnes() throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = gpus(CONFIG)) {
      ranks.run(
          (comm, stream) -> {
            Random random = new Random(SEED);
            try (DeviceStream other = comm.device().createStream()) {
              List<DeviceStream> both = List.of(stream, other);
              for (int time = 0; time < 12; time++) {
                List<Call> calls = calls(random, comm.nRanks(), 2 + random.nextInt(9), null, LARGE);
                // Ranks need not have them in as many streams.
                run(comm, calls, time % 3 == 2 && comm.rank() == 0 ? both : List.of(stream));
              }
            }
          });
    }
  }

  /** Ranks need not have the operations in the same streams. */
  @Test
  void groupsInSeveralStreams() throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = gpus(CONFIG)) {
      ranks.run(
          (comm, stream) -> {
            Random random = new Random(SEED);
            List<DeviceStream> streams = new ArrayList<>();
            for (int i = 0; i < 2 + comm.rank(); i++) {
              streams.add(comm.device().createStream());
            }
            for (int time = 0; time < 10; time++) {
              run(comm, calls(random, comm.nRanks(), 2 + random.nextInt(20), null), streams);
            }
            streams.forEach(DeviceStream::close);
          });
    }
  }

  /** Each operation adds what the one before has summed: they take effect in their order. */
  @ParameterizedTest
  @ValueSource(ints = {1001, 300_001})
  void operationsOfAGroupThatDependOnEachOther(int count) throws Exception {
    int steps = 12;
    try (Ranks ranks = gpus(CONFIG)) {
      ranks.run(
          (comm, stream) -> {
            DataSet data = new DataSet(DataType.INT64, RedOp.SUM, comm.nRanks(), count, 5);
            long bytes = 8L * count;
            try (DeviceMemory memory = comm.device().allocate(bytes * (steps + 1));
                DeviceMemory apart = comm.device().allocate(bytes)) {
              data.fillSend(comm.rank(), memory.slice(0, bytes));
              data.fillSend(comm.rank(), apart);
              // Of the first sum the maximum over the ranks is the sum.
              Group.run(
                  () -> {
                    comm.allReduce(
                        memory.slice(0, bytes),
                        memory.slice(bytes, bytes),
                        count,
                        DataType.INT64,
                        RedOp.SUM,
                        stream);
                    for (int step = 1; step < steps; step++) {
                      comm.allReduce(
                          memory.slice(step * bytes, bytes),
                          memory.slice((step + 1) * bytes, bytes),
                          count,
                          DataType.INT64,
                          RedOp.MAX,
                          stream);
                    }
                    comm.allReduce(apart, apart, count, DataType.INT64, RedOp.SUM, stream);
                  });
              stream.synchronize();
              Segment sum = new Segment(0, count, Segment.COMBINED, 0);
              assertEquals("", data.verify(sum, memory.slice(steps * bytes, bytes)).first());
              assertEquals("", data.verify(sum, apart).first());
            }
          });
    }
  }

  /** Groups and single calls by turns, in a graph that is launched several times. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void groupsInGraphs(boolean large) throws Exception {
    System.out.println("seed " + SEED);
    int[] counts = large ? LARGE : SMALL;
    try (Ranks ranks = gpus(CONFIG)) {
      ranks.run(
          (comm, stream) -> {
            CudaStream cuda = (CudaStream) stream;
            Random random = new Random(SEED);
            List<Call> calls = calls(random, comm.nRanks(), 30, null, counts);
            try (DeviceMemory memory = comm.device().allocate(bytes(calls, comm.nRanks()))) {
              List<Place> places = places(comm, memory, calls);
              cuda.beginCapture();
              Group.run(() -> places.subList(0, 12).forEach(place -> place.launch(stream)));
              places.get(12).launch(stream);
              Group.run(() -> places.subList(13, 30).forEach(place -> place.launch(stream)));
              try (CudaGraph graph = cuda.endCapture()) {
                for (int replay = 0; replay < 5; replay++) {
                  places.forEach(Place::fill);
                  graph.launch(cuda);
                  stream.synchronize();
                  places.forEach(Place::check);
                  run(comm, calls(random, comm.nRanks(), 5, null), List.of(stream));
                }
              }
            }
          });
    }
  }

  /** One thread calls for all ranks, one of which another thread keeps waiting. */
  @Test
  void oneThreadCallsForAllRanksAndOneIsLate() {
    System.out.println("seed " + SEED);
    try (Ranks ranks = gpus(CONFIG)) {
      int n = ranks.communicators.size();
      Random random = new Random(SEED);
      for (int time = 0; time < 10; time++) {
        List<Call> calls = calls(random, n, 2 + random.nextInt(20), null);
        List<DeviceMemory> memories = new ArrayList<>();
        List<List<Place>> places = new ArrayList<>();
        for (Communicator comm : ranks.communicators) {
          memories.add(comm.device().allocate(bytes(calls, n)));
          places.add(places(comm, memories.get(comm.rank()), calls));
        }
        places.forEach(own -> own.forEach(Place::fill));
        int late = random.nextInt(n);
        ranks
            .streams
            .get(late)
            .launchHostFunction(() -> LockSupport.parkNanos(Duration.ofMillis(20).toNanos()));
        Group.run(
            () -> {
              for (int rank = 0; rank < n; rank++) {
                for (Place place : places.get(rank)) {
                  place.launch(ranks.streams.get(rank));
                }
              }
            });
        ranks.streams.forEach(DeviceStream::synchronize);
        places.forEach(own -> own.forEach(Place::check));
        memories.forEach(DeviceMemory::close);
      }
    }
  }

  /** A rank that does not call: the others' groups end with an error that names it. */
  @Test
  void aMissingRankAndAnAbortEndAGroup() throws Exception {
    for (boolean aborts : new boolean[] {false, true}) {
      CommunicatorConfig config =
          CONFIG.withOperationTimeout(Duration.ofMillis(aborts ? 60_000 : 500));
      try (Ranks ranks = gpus(config)) {
        Communicator comm = ranks.communicators.get(0);
        DeviceStream stream = ranks.streams.get(0);
        List<Call> calls = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
          calls.add(new Call(Kind.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, 100, false, i));
        }
        try (DeviceMemory memory = comm.device().allocate(bytes(calls, comm.nRanks()))) {
          List<Place> places = places(comm, memory, calls);
          Group.run(() -> places.forEach(place -> place.launch(stream)));
          if (aborts) {
            comm.abort();
          }
          NcclException e = assertThrows(NcclException.class, stream::synchronize);
          assertTrue(aborts || e.getMessage().contains("rank"), e.getMessage());
        }
      }
    }
  }
}
