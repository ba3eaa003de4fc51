package org.nccl4j.it.nvls;

import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** A program that makes a communicator of all GPUs and closes it. */
final class FakeGpuRanks {
  /** No other allocation has this size. */
  static final long MARK_BYTES = 123 << 10;

  private FakeGpuRanks() {}

  /** Initialised after the creation, which its name ends in a log of initialisations. */
  static final class Created {
    private Created() {}

    static void note() {
      // The call has initialised the class.
    }
  }

  /** No arguments; settings come from the environment, what else to do from properties. */
  public static void main(String[] arguments) {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    if (Boolean.getBoolean("nccl4j.warmed")) {
      awaitRehearsal();
    }
    List<Communicator> ranks = Communicator.initAll(devices);
    DataType type = DataType.valueOf(System.getProperty("nccl4j.type", "FLOAT32"));
    String table = ranks.get(0).explain(Operation.ALL_REDUCE, 1 << 20, type);
    String nvls = table.contains("NVLS") ? "with NVLS" : "without NVLS";
    Created.note();
    System.out.println(nvls);
    System.out.println(table);
    System.out.println("transports " + ranks.get(0).transports());
    if (Boolean.getBoolean("nccl4j.ctas")) {
      launchWithLimits(ranks.get(0));
    }
    if (Boolean.getBoolean("nccl4j.freed.memory")) {
      passFreedMemory(ranks.get(0));
    }
    List<DeviceMemory> windows = List.of();
    switch (System.getProperty("nccl4j.also", "")) {
      case "alone" -> OtherGpuRanks.alone(devices.get(0));
      case "splits" -> OtherGpuRanks.splits(devices);
      case "pairs" -> OtherGpuRanks.pairs(devices);
      case "compared" -> OtherGpuRanks.compared(devices);
      case "registered" -> OtherGpuRanks.registered(devices);
      case "large" -> OtherGpuRanks.large(ranks);
      case "driven" -> OtherGpuRanks.driven(devices);
      case "windows" -> windows = OtherGpuRanks.windows(ranks);
      case "conflict" -> OtherGpuRanks.conflict(devices);
      default -> {}
    }
    for (int time = 0; time < Integer.getInteger("nccl4j.suspensions", 0); time++) {
      System.out.println("held " + ranks.get(0).memory().size() + " kinds of memory");
      OtherGpuRanks.together(ranks, Communicator::suspend);
      System.out.println("suspended with " + ranks.get(0).memory().size());
      OtherGpuRanks.together(ranks, Communicator::resume);
    }
    // One after the other on one thread, with calls in between that can be told from others.
    for (Communicator rank : ranks) {
      devices.get(0).allocate(MARK_BYTES).close();
      rank.close();
      // Of a rank that has closed, its memory may go while others still work.
      if (!windows.isEmpty()) {
        windows.get(rank.rank()).close();
      }
    }
  }

  /** Until what is done ahead has ended, as a program's contexts take longer on a GPU. */
  private static void awaitRehearsal() {
    while (Thread.getAllStackTraces().keySet().stream()
        .anyMatch(thread -> thread.getName().equals("nccl4j-preparation"))) {
      LockSupport.parkNanos(1_000_000);
    }
  }

  /** Launches on the fake end at once and move nothing. */
  private static void launchWithLimits(Communicator comm) {
    int count = 16 << 20;
    try (DeviceMemory data = comm.device().allocate(4L * count);
        DeviceStream stream = comm.device().createStream()) {
      CallOptions ring = CallOptions.defaults().withAlgorithm("Ring").withProtocol("Simple");
      for (CallOptions options :
          List.of(ring, ring.withMaxCtas(3), ring.withMinCtas(64), ring.withMaxCtas(1))) {
        comm.withOptions(options).allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
      }
      comm.withOptions(ring.withMinCtas(7))
          .allReduce(data, data, 1, DataType.FLOAT32, RedOp.SUM, stream);
    }
  }

  private static void passFreedMemory(Communicator comm) {
    try (DeviceMemory good = comm.device().allocate(64);
        DeviceStream stream = comm.device().createStream()) {
      DeviceMemory freed = comm.device().allocate(64);
      DeviceMemory wrong = comm.device().wrap(freed.address(), 64);
      freed.close();
      comm.allReduce(good, wrong, 16, DataType.FLOAT32, RedOp.SUM, stream);
      System.out.println("taken");
    } catch (InvalidArgumentException e) {
      System.out.println("refused: " + e.getMessage());
    }
  }
}
