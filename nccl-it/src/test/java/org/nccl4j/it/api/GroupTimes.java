package org.nccl4j.it.api;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.workload.Buffers;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/**
 * Times of groups of collectives on all GPUs, each on buffers of its own: {@code GroupTimes
 * [LIBNCCL] [OPERATIONS]}. For each size the time of a group whose operations are launched
 * together, of one with NCCL4J_GROUP_FUSE=0, and of as many calls without a group; with a
 * libnccl.so.2 also its group. By the host's clock, many groups in a row, and in a graph. The
 * median of seven rounds counts. Run by hand; {@link FusedGroupGpuTest} checks.
 */
final class GroupTimes {
  private static final int ROUNDS = 7;
  private static final int IN_A_ROW = 100;
  private static final int IN_A_GRAPH = 10;
  private static final int WARM_UP = 30;
  private static final long[] BYTES = {8, 1 << 10, 8 << 10, 32 << 10, 256 << 10, 4 << 20};

  private GroupTimes() {}

  public static void main(String[] arguments) throws Exception {
    boolean compares = arguments.length > 0 && !arguments[0].matches("\\d+");
    Libnccl libnccl = compares ? Libnccl.load(arguments[0]) : null;
    int at = compares ? 1 : 0;
    int operations = arguments.length > at ? Integer.parseInt(arguments[at]) : 10;
    System.out.printf(
        "%d operations a group, microseconds of a group: in a row / in a graph%n", operations);
    CommunicatorConfig config = CommunicatorConfig.defaults();
    try (Ranks fused = gpus(config);
        Ranks apart = gpus(config.with("NCCL4J_GROUP_FUSE", "0"))) {
      for (Workload workload :
          new Workload[] {Workload.ALL_REDUCE, Workload.ALL_GATHER, Workload.REDUCE_SCATTER}) {
        for (long bytes : BYTES) {
          Case group = new Case(workload, bytes, operations, true);
          print(fused, group, "together");
          print(apart, group, "a kernel each");
          print(fused, new Case(workload, bytes, operations, false), "without a group");
          if (compares) {
            String id = libnccl.uniqueId();
            fused.run((comm, stream) -> theirs(libnccl, id, comm, (CudaStream) stream, group));
          }
        }
      }
    }
    System.exit(0);
  }

  private static Ranks gpus(CommunicatorConfig config) {
    return new Ranks(Communicator.initAll(List.copyOf(Devices.cuda().list()), config));
  }

  /**
   * A case.
   *
   * @param bytes of the whole data of an operation
   * @param grouped whether the operations are in a group
   */
  private record Case(Workload workload, long bytes, int operations, boolean grouped) {
    long sendBytes(int n) {
      return workload == Workload.ALL_GATHER ? part(n) : Math.max(bytes, part(n) * n);
    }

    long recvBytes(int n) {
      return workload == Workload.REDUCE_SCATTER ? part(n) : Math.max(bytes, part(n) * n);
    }

    /** At least an element. */
    long part(int n) {
      return workload == Workload.ALL_REDUCE ? bytes / n : Math.max(4, bytes / n / 4 * 4);
    }

    @Override
    public String toString() {
      return "%s of %d bytes".formatted(workload.label(), bytes);
    }
  }

  private static void print(Ranks ranks, Case kind, String how) throws Exception {
    ranks.run(
        (comm, stream) -> {
          int n = comm.nRanks();
          try (DeviceMemory send =
                  comm.device().allocate(kind.operations * round(kind.sendBytes(n)));
              DeviceMemory recv =
                  comm.device().allocate(kind.operations * round(kind.recvBytes(n)))) {
            List<Runnable> calls = new ArrayList<>();
            for (int i = 0; i < kind.operations; i++) {
              calls.add(
                  call(
                      comm,
                      kind,
                      send.slice(i * round(kind.sendBytes(n)), kind.sendBytes(n)),
                      recv.slice(i * round(kind.recvBytes(n)), kind.recvBytes(n)),
                      (CudaStream) stream));
            }
            Runnable all =
                kind.grouped
                    ? () -> Group.run(() -> calls.forEach(Runnable::run))
                    : () -> calls.forEach(Runnable::run);
            report(comm, kind + " " + how, (CudaStream) stream, all);
          }
        });
  }

  private static long round(long bytes) {
    return (bytes + 255) / 256 * 256;
  }

  private static Runnable call(
      Communicator comm, Case kind, DeviceMemory send, DeviceMemory recv, CudaStream stream) {
    DataType type = DataType.FLOAT32;
    long part = kind.part(comm.nRanks()) / 4;
    return switch (kind.workload) {
      case ALL_GATHER -> () -> comm.allGather(send, recv, part, type, stream);
      case REDUCE_SCATTER -> () -> comm.reduceScatter(send, recv, part, type, RedOp.SUM, stream);
      default -> () -> comm.allReduce(send, recv, kind.bytes / 4, type, RedOp.SUM, stream);
    };
  }

  private static void theirs(
      Libnccl libnccl, String id, Communicator comm, CudaStream stream, Case kind) {
    ((CudaDevice) comm.device()).makeCurrent();
    int n = comm.nRanks();
    long theirs = libnccl.join(n, id, comm.rank());
    Libnccl.Place place = new Libnccl.Place(theirs, comm.rank(), n, stream.handle());
    try (DeviceMemory send = comm.device().allocate(kind.operations * round(kind.sendBytes(n)));
        DeviceMemory recv = comm.device().allocate(kind.operations * round(kind.recvBytes(n)))) {
      List<Runnable> calls = new ArrayList<>();
      for (int i = 0; i < kind.operations; i++) {
        Cell cell =
            new Cell(
                kind.workload,
                DataType.FLOAT32,
                RedOp.SUM,
                0,
                Math.max(kind.bytes, kind.part(n) * n) / 4,
                false);
        calls.add(
            libnccl.operation(
                cell,
                new Buffers(
                    send.slice(i * round(kind.sendBytes(n)), kind.sendBytes(n)),
                    recv.slice(i * round(kind.recvBytes(n)), kind.recvBytes(n)),
                    DataType.FLOAT32),
                place));
      }
      Runnable all =
          () -> {
            libnccl.groupStart();
            calls.forEach(Runnable::run);
            libnccl.groupEnd();
          };
      report(comm, kind + " libnccl " + libnccl.version(), stream, all);
    }
    libnccl.destroy(theirs);
  }

  private static void report(Communicator comm, String what, CudaStream stream, Runnable group) {
    StreamTimes times = new StreamTimes(stream, ROUNDS);
    double row = times.inARow(WARM_UP, IN_A_ROW, group);
    double graph = times.inAGraph(IN_A_GRAPH, group);
    if (comm.rank() == 0) {
      System.out.printf("%-48s %8.1f / %8.1f%n", what, row, graph);
    }
  }
}
