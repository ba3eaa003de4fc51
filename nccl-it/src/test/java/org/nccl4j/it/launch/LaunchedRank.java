package org.nccl4j.it.launch;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.function.IntUnaryOperator;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * A rank that learns from its environment who it is, and calls every collective: with the
 * transports that the engine chooses, then over the network alone. Exit status 0 if all results are
 * right. The id is the launcher's; else rank 0 leaves it in the file of the first argument.
 */
public final class LaunchedRank {
  private static final int COUNT = 1031;
  private static final int PATIENCE_SECONDS = 300;

  private final Communicator communicator;
  private final DeviceStream stream;
  private final int rank;
  private final int n;

  private LaunchedRank(Communicator communicator, DeviceStream stream) {
    this.communicator = communicator;
    this.stream = stream;
    this.rank = communicator.rank();
    this.n = communicator.nRanks();
  }

  /**
   * The program.
   *
   * @param arguments a file that does not exist yet, where the launcher makes no id
   */
  public static void main(String[] arguments) throws Exception {
    LaunchEnvironment place = LaunchEnvironment.required();
    CommunicatorConfig config = CommunicatorConfig.defaults();
    try (DeviceStream stream = Devices.host().createStream()) {
      UniqueId id = place.uniqueId().isPresent() ? place.uniqueId().get() : id(place, arguments[0]);
      try (Communicator all = join(place, id, config)) {
        new LaunchedRank(all, stream).everything();
        try (Communicator same = all.split(0, place.rank(), overNetwork(config)).orElseThrow()) {
          require(!same.transports().containsValue("SHM"), "transports " + same.transports());
          new LaunchedRank(same, stream).everything();
        }
      }
    }
    System.out.print(allRight(place));
  }

  /** One line, to be written in one piece: launchers mix what their ranks write. */
  private static String allRight(LaunchEnvironment place) {
    return "%s: rank %d of %d, local %d: all right%n"
        .formatted(place.launcher(), place.rank(), place.nRanks(), place.localRank());
  }

  private static CommunicatorConfig overNetwork(CommunicatorConfig config) {
    return config.withSplitShare(false).withTransports(List.of("NET"));
  }

  private static Communicator join(
      LaunchEnvironment place, UniqueId id, CommunicatorConfig config) {
    return Communicator.initRank(place.nRanks(), id, place.rank(), Devices.host(), config);
  }

  private static UniqueId id(LaunchEnvironment place, String name) throws Exception {
    Path file = Path.of(name);
    if (place.rank() == 0) {
      UniqueId made = UniqueId.create();
      Path whole = Files.writeString(Path.of(name + ".new"), made.toString());
      Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
      return made;
    }
    for (int look = 0; look < PATIENCE_SECONDS * 20; look++) {
      try {
        return UniqueId.parse(Files.readString(file));
      } catch (NoSuchFileException e) {
        Thread.sleep(50);
      }
    }
    throw new IOException("rank 0 has left no id in " + file);
  }

  private void everything() {
    int total = n * (n + 1) / 2;
    int root = n - 1;
    check("all_reduce", COUNT, i -> own(i), COUNT, i -> total * (i % 97), Call.ALL_REDUCE);
    check("all_gather", COUNT, i -> own(i), COUNT * n, i -> of(i / COUNT, i % COUNT), Call.GATHER);
    check(
        "reduce_scatter",
        COUNT * n,
        i -> own(i),
        COUNT,
        i -> total * ((rank * COUNT + i) % 97),
        Call.REDUCE_SCATTER);
    check("broadcast", COUNT, i -> own(i), COUNT, i -> of(root, i), Call.BROADCAST);
    check("reduce", COUNT, i -> own(i), COUNT, i -> atRoot(total * (i % 97)), Call.REDUCE);
    check("alltoall", COUNT * n, this::own, COUNT * n, this::exchanged, Call.ALL_TO_ALL);
    check(
        "gather",
        COUNT,
        i -> own(i),
        COUNT * n,
        i -> atRoot(of(i / COUNT, i % COUNT)),
        Call.GATHER_TO_ROOT);
    check("scatter", COUNT * n, this::own, COUNT, i -> of(root, rank * COUNT + i), Call.SCATTER);
    check("sendrecv", COUNT, this::own, COUNT, i -> of((rank + n - 1) % n, i), Call.SEND_RECV);
  }

  private static int of(int rank, int i) {
    return (rank + 1) * (i % 97);
  }

  private int own(int i) {
    return of(rank, i);
  }

  /** Other ranks' buffers stay as they were. */
  private int atRoot(int value) {
    return rank == n - 1 ? value : -1;
  }

  private int exchanged(int i) {
    return of(i / COUNT, rank * COUNT + i % COUNT);
  }

  private enum Call {
    ALL_REDUCE,
    GATHER,
    REDUCE_SCATTER,
    BROADCAST,
    REDUCE,
    ALL_TO_ALL,
    GATHER_TO_ROOT,
    SCATTER,
    SEND_RECV
  }

  private void check(
      String name,
      int sent,
      IntUnaryOperator sendValues,
      int received,
      IntUnaryOperator expected,
      Call call) {
    Device device = communicator.device();
    try (DeviceMemory send = device.allocate(sent * 4L);
        DeviceMemory recv = device.allocate(received * 4L)) {
      ByteBuffer values = ByteBuffer.allocate(sent * 4).order(ByteOrder.nativeOrder());
      for (int i = 0; i < sent; i++) {
        values.putInt(4 * i, sendValues.applyAsInt(i));
      }
      send.write(0, values);
      recv.fill((byte) -1);
      launch(call, send, recv);
      stream.synchronize();
      ByteBuffer got = ByteBuffer.allocate(received * 4).order(ByteOrder.nativeOrder());
      recv.read(0, got);
      for (int i = 0; i < received; i++) {
        int is = got.getInt(4 * i);
        int due = expected.applyAsInt(i);
        require(is == due, "%s: element %d is %d instead of %d".formatted(name, i, is, due));
      }
    }
  }

  private void launch(Call call, DeviceMemory send, DeviceMemory recv) {
    DataType type = DataType.INT32;
    int root = n - 1;
    switch (call) {
      case ALL_REDUCE -> communicator.allReduce(send, recv, COUNT, type, RedOp.SUM, stream);
      case GATHER -> communicator.allGather(send, recv, COUNT, type, stream);
      case REDUCE_SCATTER -> communicator.reduceScatter(send, recv, COUNT, type, RedOp.SUM, stream);
      case BROADCAST -> communicator.broadcast(send, recv, COUNT, type, root, stream);
      case REDUCE -> communicator.reduce(send, recv, COUNT, type, RedOp.SUM, root, stream);
      case ALL_TO_ALL -> communicator.allToAll(send, recv, COUNT, type, stream);
      case GATHER_TO_ROOT -> communicator.gather(send, recv, COUNT, type, root, stream);
      case SCATTER -> communicator.scatter(send, recv, COUNT, type, root, stream);
      case SEND_RECV ->
          Group.run(
              () -> {
                communicator.send(send, COUNT, type, (rank + 1) % n, stream);
                communicator.recv(recv, COUNT, type, (rank + n - 1) % n, stream);
              });
    }
  }

  private static void require(boolean condition, String what) {
    if (!condition) {
      throw new IllegalStateException(what);
    }
  }
}
