package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorConfig.CtaPolicy;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.operation.Operation;

/** With the policy of no blocks, data that only move are moved without a kernel. */
@Timeout(600)
class CtaPolicyTest {
  private static final int BYTES = 5000;

  @TempDir private Path folder;

  @Test
  void gathersBetweenWindowsLaunchNoKernel() throws Exception {
    Ran ran = FakeGpuProcess.in(folder).run(Map.of(), Gatherer.class);
    assertTrue(ran.output().contains("CopyEngineStream for all_gather"), ran.output());
    assertTrue(ran.output().contains("CopyEngineStream for alltoall"), ran.output());
    assertTrue(ran.output().contains("the same for all_reduce"), ran.output());
    assertTrue(ran.output().contains("by an option: CopyEngineStream"), ran.output());
    assertTrue(ran.output().contains("CopyEngine for 1048576 bytes to send"), ran.output());
    assertTrue(ran.output().contains("Pairwise for 1048575 bytes to send"), ran.output());
    assertEquals(2, ran.output().lines().filter("gathered"::equals).count(), ran.output());
    String mark = "cuMemAlloc_v2(" + Gatherer.MARK + ")";
    List<String> calls = ran.calls();
    int from = calls.indexOf(mark);
    int to = calls.lastIndexOf(mark);
    assertTrue(0 <= from && from < to, calls.toString());
    List<String> between = calls.subList(from, to);
    assertEquals(
        List.of(), between.stream().filter(call -> call.startsWith("cuLaunchKernel")).toList());
  }

  /** A program that gathers between windows of two GPUs. */
  static final class Gatherer {
    /** No other allocation has this size. */
    static final int MARK = 77 << 10;

    private Gatherer() {}

    /** No arguments. */
    public static void main(String[] arguments) {
      List<Device> devices = List.copyOf(Devices.cuda().list());
      CommunicatorConfig config = CommunicatorConfig.defaults().withCtaPolicy(CtaPolicy.ZERO);
      List<Communicator> ranks = Communicator.initAll(devices, config);
      List<Communicator> plain = Communicator.initAll(devices);
      for (Operation operation : List.of(Operation.ALL_GATHER, Operation.ALL_TO_ALL)) {
        System.out.println(way(ranks.get(0), operation) + " for " + operation.key());
      }
      boolean same =
          way(ranks.get(0), Operation.ALL_REDUCE).equals(way(plain.get(0), Operation.ALL_REDUCE));
      System.out.println((same ? "the same" : "another") + " for all_reduce");
      for (int bytes : new int[] {1 << 20, (1 << 20) - 1}) {
        String send =
            ranks.get(0).chosenAlgorithm(Operation.SEND, bytes, DataType.INT8).algorithm().label();
        System.out.println(send + " for " + bytes + " bytes to send");
      }
      CallOptions copies = CallOptions.defaults().withCtaPolicy(CtaPolicy.ZERO);
      System.out.println(
          "by an option: " + way(plain.get(0).withOptions(copies), Operation.ALL_GATHER));
      gather(ranks);
      ranks.forEach(Communicator::close);
      plain.forEach(Communicator::close);
    }

    private static String way(Communicator comm, Operation operation) {
      return comm.chosenAlgorithmInWindows(operation, 1 << 20, DataType.INT8).algorithm().label();
    }

    private static void gather(List<Communicator> ranks) {
      List<DeviceMemory> parts = new ArrayList<>();
      List<DeviceMemory> wholes = new ArrayList<>();
      List<DeviceStream> streams = new ArrayList<>();
      byte[] expected = new byte[BYTES * ranks.size()];
      new Random(7).nextBytes(expected);
      for (Communicator comm : ranks) {
        parts.add(comm.device().memAlloc(BYTES));
        wholes.add(comm.device().memAlloc((long) BYTES * ranks.size()));
        streams.add(comm.device().createStream());
        parts.get(comm.rank()).write(0, ByteBuffer.wrap(expected, BYTES * comm.rank(), BYTES));
      }
      Group.run(() -> ranks.forEach(comm -> comm.registerWindow(wholes.get(comm.rank()))));
      Group.run(() -> ranks.forEach(comm -> comm.registerWindow(parts.get(comm.rank()))));
      ranks.get(0).device().allocate(MARK).close();
      Group.run(
          () -> {
            for (Communicator comm : ranks) {
              int rank = comm.rank();
              comm.allGather(
                  parts.get(rank), wholes.get(rank), BYTES, DataType.INT8, streams.get(rank));
            }
          });
      streams.forEach(DeviceStream::synchronize);
      ranks.get(0).device().allocate(MARK).close();
      for (DeviceMemory whole : wholes) {
        byte[] got = new byte[expected.length];
        whole.read(0, ByteBuffer.wrap(got));
        System.out.println(Arrays.equals(expected, got) ? "gathered" : "wrong");
      }
    }
  }
}
