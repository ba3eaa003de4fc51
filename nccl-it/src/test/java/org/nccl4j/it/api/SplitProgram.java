package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/**
 * One of a few ranks, an even number, in a random program: operations by turns on a communicator
 * and on splits that use its connections, in several streams, without waiting in between; each on
 * fresh data, into poisoned memory. All ranks draw the same operations.
 */
final class SplitProgram implements AutoCloseable {
  private static final int OPERATIONS = 24; // that are under way together
  private static final int STREAMS = 3;
  private static final int REPLAYS = 3;
  private static final boolean SHARE = Boolean.parseBoolean(System.getProperty("share", "true"));

  private static final List<List<String>> WAYS =
      List.of(
          List.of(),
          List.of("Ring", "LL"),
          List.of("Ring", "LL128"),
          List.of("Ring", "Simple"),
          List.of("OneShot", "LL"),
          List.of("OneShot", "LL128"),
          List.of("OneShot", "Simple"),
          List.of("TwoShot", "LL"),
          List.of("TwoShot", "Simple"),
          List.of("Tree", "LL"),
          List.of("Tree", "Simple"));

  private enum Kind {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    BROADCAST,
    REDUCE,
    EXCHANGE
  }

  /** An operation of one of the communicators. */
  private record Operation(
      int number, Kind kind, int team, int count, int root, int stream, List<String> way) {}

  private final List<List<String>> ways;
  private final Communicator parent;
  private final int n;
  private final int me;
  private final int mostCount;
  private final Random random;
  private final List<Communicator> teams = new ArrayList<>();
  private final Map<String, Communicator> byWay = new HashMap<>();
  private final List<DeviceStream> streams = new ArrayList<>();
  private final List<DeviceMemory> inputs = new ArrayList<>();
  private final List<DeviceMemory> outputs = new ArrayList<>();
  private int drawn;

  /** Splits the parent, all ranks at once. */
  SplitProgram(Communicator parent, int mostCount, long seed) {
    this(parent, mostCount, seed, WAYS);
  }

  /** As above, with operations as the communicators choose, as over a network they have to be. */
  static SplitProgram asChosen(Communicator parent, int mostCount, long seed) {
    return new SplitProgram(parent, mostCount, seed, WAYS.subList(0, 1));
  }

  private SplitProgram(Communicator parent, int mostCount, long seed, List<List<String>> ways) {
    this.ways = ways;
    this.parent = parent;
    this.n = parent.nRanks();
    this.me = parent.rank();
    this.mostCount = mostCount;
    this.random = new Random(seed);
    CommunicatorConfig share = CommunicatorConfig.defaults().withSplitShare(SHARE);
    teams.add(parent);
    teams.add(parent.split(me / 2, me, share).orElseThrow());
    teams.add(parent.split(0, -me, share).orElseThrow());
    teams.add(teams.get(2).split(teams.get(2).rank() / 2, 0, share).orElseThrow());
    teams.add(parent.split(me % 2, me, share).orElseThrow());
    teams.add(parent.split(me, 0, share).orElseThrow());
    for (int i = 0; i < STREAMS; i++) {
      streams.add(parent.device().createStream());
    }
    for (int i = 0; i < OPERATIONS; i++) {
      inputs.add(parent.device().allocate(4L * n * mostCount));
      outputs.add(parent.device().allocate(4L * n * mostCount));
    }
  }

  /** Ranks of the parent that are with a rank in a communicator, in its order. */
  private int[] members(int team, int of) {
    IntPredicate with =
        switch (team) {
          case 1, 3 -> rank -> rank / 2 == of / 2;
          case 4 -> rank -> rank % 2 == of % 2;
          case 5 -> rank -> rank == of;
          default -> rank -> true;
        };
    boolean reversed = team == 2 || team == 3;
    return IntStream.range(0, n).map(rank -> reversed ? n - 1 - rank : rank).filter(with).toArray();
  }

  /** Bytes that the splits say they hold. */
  long heldBySplits() {
    return teams.subList(1, teams.size()).stream()
        .flatMap(team -> team.memory().values().stream())
        .mapToLong(Long::longValue)
        .sum();
  }

  /** The splits. */
  List<Communicator> splits() {
    return teams.subList(1, teams.size());
  }

  private Operation draw(int stream) {
    int team = random.nextInt(teams.size());
    int count =
        1 + random.nextInt(1 << random.nextInt(32 - Integer.numberOfLeadingZeros(mostCount)));
    return new Operation(
        drawn++,
        Kind.values()[random.nextInt(Kind.values().length)],
        team,
        Math.min(count, mostCount),
        random.nextInt(members(team, 0).length),
        stream < 0 ? random.nextInt(STREAMS) : stream,
        ways.get(random.nextInt(ways.size())));
  }

  private List<Operation> draw(int operations, boolean oneStream) {
    List<Operation> all = new ArrayList<>();
    for (int i = 0; i < operations; i++) {
      all.add(draw(oneStream ? 0 : -1));
    }
    return all;
  }

  /** Several operations into several streams, then a look at what came of them. */
  void batch() {
    List<Operation> all = draw(OPERATIONS, false);
    fill(all);
    all.forEach(operation -> launch(operation, all, streams.get(operation.stream)));
    check(all);
  }

  /** Operations of several communicators in one graph, launched by turns with others. */
  void graphs() {
    List<Operation> all = draw(OPERATIONS, false);
    List<Operation> captured = all.subList(0, OPERATIONS / 3);
    fill(all);
    CudaStream first = (CudaStream) streams.get(0);
    DeviceStream second = streams.get(1);
    first.beginCapture();
    follow(second, first);
    for (Operation operation : captured) {
      launch(operation, all, operation.stream == 1 ? second : first);
    }
    follow(first, second);
    try (CudaGraph graph = first.endCapture()) {
      int next = captured.size();
      for (int replay = 0; replay < REPLAYS; replay++) {
        for (int end = next + OPERATIONS / 6; next < end; next++) {
          launch(all.get(next), all, streams.get(all.get(next).stream));
        }
        graph.launch((CudaStream) streams.get(replay % STREAMS));
      }
      for (; next < all.size(); next++) {
        launch(all.get(next), all, streams.get(all.get(next).stream));
      }
      check(all);
    }
  }

  private void follow(DeviceStream waiting, DeviceStream awaited) {
    try (DeviceEvent event = parent.device().createEvent()) {
      awaited.record(event);
      waiting.await(event);
    }
  }

  /** One operation of each communicator, launched by a group that the caller has open. */
  List<Runnable> grouped() {
    List<Operation> all = new ArrayList<>();
    for (int team = 0; team < teams.size(); team++) {
      Operation drawnOne = draw(team % STREAMS);
      all.add(
          new Operation(
              drawnOne.number,
              team % 2 == 0 ? Kind.ALL_REDUCE : Kind.ALL_GATHER,
              team,
              drawnOne.count,
              0,
              drawnOne.stream,
              List.of()));
    }
    fill(all);
    return List.of(
        () -> all.forEach(operation -> launch(operation, all, streams.get(operation.stream))),
        () -> check(all));
  }

  private void fill(List<Operation> all) {
    for (int i = 0; i < all.size(); i++) {
      Operation operation = all.get(i);
      ByteBuffer data =
          ByteBuffer.allocateDirect(4 * n * operation.count).order(ByteOrder.nativeOrder());
      while (data.hasRemaining()) {
        data.putInt(value(me, operation, data.position() / 4));
      }
      inputs.get(i).write(0, data.flip());
      outputs.get(i).fill((byte) 0x5a);
    }
  }

  /** The input of a rank of the parent. */
  private static int value(int rank, Operation operation, int i) {
    return (operation.number * 1_000_003 + rank * 7919 + i) * 0x9E3779B1;
  }

  private void launch(Operation operation, List<Operation> all, DeviceStream stream) {
    int place = all.indexOf(operation);
    DeviceMemory in = inputs.get(place);
    DeviceMemory out = outputs.get(place);
    Communicator team = team(operation);
    int size = team.nRanks();
    int count = operation.count;
    DataType type = DataType.INT32;
    switch (operation.kind) {
      case ALL_REDUCE -> team.allReduce(in, out, count, type, RedOp.SUM, stream);
      case ALL_GATHER -> team.allGather(in, out, count, type, stream);
      case REDUCE_SCATTER -> team.reduceScatter(in, out, count, type, RedOp.SUM, stream);
      case BROADCAST -> team.broadcast(in, out, count, type, operation.root, stream);
      case REDUCE -> team.reduce(in, out, count, type, RedOp.SUM, operation.root, stream);
      case EXCHANGE ->
          Group.run(
              () -> {
                team.send(in, count, type, (team.rank() + 1) % size, stream);
                team.recv(out, count, type, (team.rank() + size - 1) % size, stream);
              });
    }
  }

  private Communicator team(Operation operation) {
    Communicator team = teams.get(operation.team);
    boolean allReduce = operation.kind == Kind.ALL_REDUCE;
    boolean forAll = operation.way.isEmpty() || operation.way.get(0).matches("Ring|OneShot");
    if (operation.way.isEmpty() || operation.kind == Kind.EXCHANGE || !(allReduce || forAll)) {
      return team;
    }
    return byWay.computeIfAbsent(
        operation.team + " " + operation.way,
        key ->
            team.withOptions(
                CallOptions.defaults()
                    .withAlgorithm(operation.way.get(0))
                    .withProtocol(operation.way.get(1))));
  }

  private void check(List<Operation> all) {
    streams.forEach(DeviceStream::synchronize);
    for (int i = 0; i < all.size(); i++) {
      check(all.get(i), outputs.get(i));
    }
  }

  private void check(Operation operation, DeviceMemory out) {
    int[] members = members(operation.team, me);
    int mine =
        IntStream.range(0, members.length).filter(r -> members[r] == me).findFirst().orElse(-1);
    assertEquals(mine, teams.get(operation.team).rank());
    int count = operation.count;
    int results = operation.kind == Kind.ALL_GATHER ? members.length * count : count;
    boolean has = operation.kind != Kind.REDUCE || mine == operation.root;
    ByteBuffer got = ByteBuffer.allocateDirect((int) out.size()).order(ByteOrder.nativeOrder());
    out.read(0, got);
    for (int i = 0; i < n * mostCount; i++) {
      int expected = 0x5a5a5a5a;
      if (has && i < results) {
        expected = expected(operation, members, mine, i);
      }
      if (got.getInt(4 * i) != expected) {
        assertEquals(
            expected, got.getInt(4 * i), "rank " + me + ", element " + i + ", " + operation);
      }
    }
  }

  private static int expected(Operation operation, int[] members, int mine, int i) {
    int count = operation.count;
    return switch (operation.kind) {
      case ALL_GATHER -> value(members[i / count], operation, i % count);
      case BROADCAST -> value(members[operation.root], operation, i);
      case EXCHANGE -> value(members[(mine + members.length - 1) % members.length], operation, i);
      case REDUCE_SCATTER -> sum(operation, members, mine * count + i);
      case ALL_REDUCE, REDUCE -> sum(operation, members, i);
    };
  }

  private static int sum(Operation operation, int[] members, int i) {
    int sum = 0;
    for (int member : members) {
      sum += value(member, operation, i);
    }
    return sum;
  }

  @Override
  public void close() {
    for (int team = teams.size() - 1; team > 0; team--) {
      teams.get(team).close();
    }
    streams.forEach(DeviceStream::close);
    inputs.forEach(DeviceMemory::close);
    outputs.forEach(DeviceMemory::close);
  }
}
