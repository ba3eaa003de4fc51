package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * A program that launches every kind of operation on its GPUs, on buffers in and out of windows.
 */
final class SmallGpuRanks {
  private static final int BYTES = 8 << 20;

  private SmallGpuRanks() {}

  /** Arguments: ranks, this process's first rank, unique id; or none for a rank on each GPU. */
  public static void main(String[] arguments) {
    List<Communicator> ranks =
        arguments.length == 0
            ? Communicator.initAll(List.copyOf(Devices.cuda().list()))
            : List.of(
                Communicator.initRank(
                    Integer.parseInt(arguments[0]),
                    UniqueId.parse(arguments[2]),
                    Integer.parseInt(arguments[1]),
                    Devices.cuda().device(Integer.parseInt(arguments[1])),
                    CommunicatorConfig.defaults()));
    List<Buffers> buffers = ranks.stream().map(SmallGpuRanks::allocate).toList();
    System.out.println("transports " + ranks.get(0).transports());
    launchAll(ranks, buffers, "");
    if (ranks.get(0).transports().containsValue("P2P")) {
      together(buffers, each -> each.comm.registerWindow(each.send));
      together(buffers, each -> each.comm.registerWindow(each.recv));
      launchAll(ranks, buffers, " in windows");
      FakeExchangeRanks.launch(ranks);
    }
    buffers.forEach(each -> each.stream.synchronize());
    ranks.forEach(Communicator::close);
    buffers.forEach(
        each -> {
          each.send.close();
          each.recv.close();
          each.stream.close();
        });
  }

  private record Buffers(
      Communicator comm, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {}

  private static Buffers allocate(Communicator comm) {
    return new Buffers(
        comm,
        comm.device().memAlloc((long) BYTES * comm.nRanks()),
        comm.device().memAlloc((long) BYTES * comm.nRanks()),
        comm.device().createStream());
  }

  private static void together(List<Buffers> ranks, Consumer<Buffers> call) {
    List<Runnable> calls = new ArrayList<>();
    ranks.forEach(each -> calls.add(() -> call.accept(each)));
    Group.run(() -> calls.forEach(Runnable::run));
  }

  private static void launchAll(List<Communicator> ranks, List<Buffers> buffers, String where) {
    int count = BYTES / 4;
    DataType type = DataType.FLOAT32;
    for (int times = 1; times <= count; times *= 64) {
      int few = count / times;
      together(buffers, r -> r.comm.allReduce(r.send, r.recv, few, type, RedOp.SUM, r.stream));
      together(buffers, r -> r.comm.allGather(r.send, r.recv, few, type, r.stream));
      together(buffers, r -> r.comm.reduceScatter(r.send, r.recv, few, type, RedOp.SUM, r.stream));
      together(buffers, r -> r.comm.broadcast(r.send, r.recv, few, type, 0, r.stream));
      together(buffers, r -> r.comm.reduce(r.send, r.recv, few, type, RedOp.SUM, 0, r.stream));
      together(buffers, r -> r.comm.allToAll(r.send, r.recv, few, type, r.stream));
      together(buffers, r -> exchange(r, few));
    }
    System.out.println("launched" + where + " on " + ranks.size());
  }

  /** Every rank sends to every other, by calls of its own. */
  private static void exchange(Buffers mine, int count) {
    int n = mine.comm.nRanks();
    for (int distance = 1; distance < n; distance++) {
      int to = (mine.comm.rank() + distance) % n;
      int from = (mine.comm.rank() - distance + n) % n;
      mine.comm.send(mine.send, count, DataType.FLOAT32, to, mine.stream);
      mine.comm.recv(
          mine.recv.slice((long) from * BYTES, BYTES), count, DataType.FLOAT32, from, mine.stream);
    }
  }
}
