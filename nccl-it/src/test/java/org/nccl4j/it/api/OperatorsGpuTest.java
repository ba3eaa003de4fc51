package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ReductionOperator;

/** Pre-multiplied sums as communicators plan them, by size and by settings. Needs GPUs. */
@Tag("gpu")
class OperatorsGpuTest {
  private static final int[] COUNTS = {1, 1001, 100_003, 3_000_001};

  /** Also where settings name nothing but what has no such sums. */
  @ParameterizedTest
  @ValueSource(strings = {"", "Tree", "TwoShot", "NVLS", "CopyEngine"})
  void byEverySizeAndSetting(String algorithm) {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_ALGO", algorithm);
    check(devices, config);
  }

  @Test
  void ofOneRank() {
    check(List.of(Devices.cuda().list().get(0)), CommunicatorConfig.defaults());
  }

  private static void check(List<Device> devices, CommunicatorConfig config) {
    List<Communicator> ranks = Communicator.initAll(devices, config);
    try {
      for (int count : COUNTS) {
        new Round(ranks, count).run();
      }
    } finally {
      ranks.forEach(Communicator::close);
    }
  }

  /** The three operations on all ranks; every other rank's scalar is in memory. */
  private static final class Round {
    private final List<Communicator> ranks;
    private final int n;
    private final int count;
    private final List<ReductionOperator> operators = new ArrayList<>();
    private final List<DeviceMemory> memory = new ArrayList<>();
    private final List<DeviceMemory> sends = new ArrayList<>();
    private final List<DeviceMemory> recvs = new ArrayList<>();
    private final List<DeviceStream> streams = new ArrayList<>();

    Round(List<Communicator> ranks, int count) {
      this.ranks = ranks;
      this.n = ranks.size();
      this.count = count;
      for (int rank = 0; rank < n; rank++) {
        Device device = ranks.get(rank).device();
        DeviceMemory scalar = device.allocate(4);
        scalar.write(0, ints(1, rank, 0));
        operators.add(
            rank % 2 == 0
                ? ReductionOperator.preMulSum(DataType.INT32, scalar)
                : ReductionOperator.preMulSum(DataType.INT32, value(rank, 0)));
        sends.add(device.allocate(4L * n * count));
        recvs.add(device.allocate(4L * count));
        sends.get(rank).write(0, ints(n * count, rank, 1));
        streams.add(device.createStream());
        memory.add(scalar);
      }
      memory.addAll(sends);
      memory.addAll(recvs);
    }

    private static int value(int rank, int i) {
      return i * 13 + 5 * rank - 3;
    }

    private static ByteBuffer ints(int count, int rank, int from) {
      ByteBuffer ints = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        ints.putInt(value(rank, from + i));
      }
      return ints.flip();
    }

    void run() {
      Group.run(
          () -> {
            for (int r = 0; r < n; r++) {
              call(r).allReduce(sends.get(r), recvs.get(r), count, INT, operators.get(r), at(r));
            }
          });
      for (int r = 0; r < n; r++) {
        check(r, 0);
      }
      Group.run(
          () -> {
            for (int r = 0; r < n; r++) {
              call(r)
                  .reduceScatter(sends.get(r), recvs.get(r), count, INT, operators.get(r), at(r));
            }
          });
      for (int r = 0; r < n; r++) {
        check(r, r * count);
      }
      Group.run(
          () -> {
            for (int r = 0; r < n; r++) {
              call(r)
                  .reduce(sends.get(r), recvs.get(r), count, INT, operators.get(r), n - 1, at(r));
            }
          });
      check(n - 1, 0);
      streams.forEach(DeviceStream::synchronize);
      streams.forEach(DeviceStream::close);
      memory.forEach(DeviceMemory::close);
    }

    private static final DataType INT = DataType.INT32;

    private Communicator call(int rank) {
      return ranks.get(rank);
    }

    private DeviceStream at(int rank) {
      return streams.get(rank);
    }

    private void check(int rank, int from) {
      at(rank).synchronize();
      ByteBuffer got = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
      recvs.get(rank).read(0, got);
      for (int i = 0; i < count; i++) {
        int expected = 0;
        for (int r = 0; r < n; r++) {
          expected += value(r, 0) * value(r, 1 + from + i);
        }
        assertEquals(expected, got.getInt(4 * i), "element " + i + " of " + count);
      }
      recvs.get(rank).fill((byte) 0xA5);
    }
  }
}
