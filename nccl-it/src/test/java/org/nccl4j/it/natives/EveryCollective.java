package org.nccl4j.it.natives;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Runs each collective and checks each element, on ranks of this process. Arguments: all ranks,
 * this process's first rank, how many it has, and the id; without an id, makes one and prints it.
 * Prints "correct" at the end.
 */
public final class EveryCollective {
  private static final int COUNT = 3000;

  private final Communicator communicator;
  private final DeviceStream stream;
  private final int ranks;
  private final int rank;

  private EveryCollective(Communicator communicator, DeviceStream stream) {
    this.communicator = communicator;
    this.stream = stream;
    this.ranks = communicator.nRanks();
    this.rank = communicator.rank();
  }

  /** Starts it. */
  public static void main(String[] args) throws Exception {
    int ranks = Integer.parseInt(args[0]);
    int first = Integer.parseInt(args[1]);
    int own = Integer.parseInt(args[2]);
    UniqueId id = args.length > 3 ? UniqueId.parse(args[3]) : UniqueId.create();
    // From here on elsewhere.c, where it is preloaded, hides what Linux alone has.
    Files.exists(Path.of("/nccl4j-elsewhere"));
    if (args.length == 3) {
      System.out.println("id " + id);
    }
    ExecutorService threads =
        Executors.newFixedThreadPool(
            own,
            task -> {
              Thread thread = new Thread(task);
              thread.setDaemon(true);
              return thread;
            });
    List<Callable<Void>> tasks = new ArrayList<>();
    for (int rank = first; rank < first + own; rank++) {
      int mine = rank;
      tasks.add(() -> run(ranks, id, mine));
    }
    List<Future<Void>> running = tasks.stream().map(threads::submit).toList();
    for (Future<Void> each : running) {
      each.get();
    }
    threads.shutdown();
    System.out.println("correct");
  }

  private static Void run(int ranks, UniqueId id, int rank) {
    try (Communicator communicator = Communicator.initRank(ranks, id, rank, Devices.host());
        DeviceStream stream = communicator.device().createStream()) {
      for (int count : new int[] {1, COUNT, 100 * COUNT}) {
        new EveryCollective(communicator, stream).all(count);
      }
    }
    return null;
  }

  private void all(int n) {
    int root = ranks - 1;
    DeviceMemory own = values(n, rank);
    DeviceMemory all = values(n * ranks, rank);
    DeviceMemory one = memory(n);
    DeviceMemory many = memory(n * ranks);
    communicator.allReduce(own, one, n, DataType.INT32, RedOp.SUM, stream);
    check("allReduce", one, n, i -> sum(i));
    communicator.reduce(own, one, n, DataType.INT32, RedOp.MAX, root, stream);
    if (rank == root) {
      check("reduce", one, n, i -> value(i, ranks - 1));
    }
    communicator.broadcast(own, one, n, DataType.INT32, root, stream);
    check("broadcast", one, n, i -> value(i, root));
    communicator.allGather(own, many, n, DataType.INT32, stream);
    check("allGather", many, n * ranks, i -> value(i % n, i / n));
    communicator.reduceScatter(all, one, n, DataType.INT32, RedOp.SUM, stream);
    check("reduceScatter", one, n, i -> sum(rank * n + i));
    communicator.allToAll(all, many, n, DataType.INT32, stream);
    check("allToAll", many, n * ranks, i -> value(rank * n + i % n, i / n));
    communicator.gather(own, many, n, DataType.INT32, root, stream);
    if (rank == root) {
      check("gather", many, n * ranks, i -> value(i % n, i / n));
    }
    communicator.scatter(all, one, n, DataType.INT32, root, stream);
    check("scatter", one, n, i -> value(rank * n + i, root));
  }

  /** A number of an element and a rank. */
  private static int value(int element, int rank) {
    return element % 1009 + 5000 * rank;
  }

  private int sum(int element) {
    return IntStream.range(0, ranks).map(each -> value(element, each)).sum();
  }

  private static DeviceMemory memory(int elements) {
    return Devices.host().allocate((long) elements * Integer.BYTES);
  }

  /** Memory of the user's. */
  private static DeviceMemory values(int elements, int rank) {
    ByteBuffer direct =
        ByteBuffer.allocateDirect(elements * Integer.BYTES).order(ByteOrder.nativeOrder());
    for (int i = 0; i < elements; i++) {
      direct.putInt(i * Integer.BYTES, value(i, rank));
    }
    return Devices.wrap(direct);
  }

  private interface Expected {
    int of(int element);
  }

  private void check(String what, DeviceMemory memory, int elements, Expected expected) {
    stream.synchronize();
    ByteBuffer read = ByteBuffer.allocate(elements * Integer.BYTES).order(ByteOrder.nativeOrder());
    memory.read(0, read);
    for (int i = 0; i < elements; i++) {
      if (read.getInt(i * Integer.BYTES) != expected.of(i)) {
        throw new AssertionError(
            "%s on rank %d: element %d is %d, not %d"
                .formatted(what, rank, i, read.getInt(i * Integer.BYTES), expected.of(i)));
      }
    }
    memory.fill((byte) 0);
  }
}
