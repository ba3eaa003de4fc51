package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** Sums after a probe on GPUs over NVLink, whether or not they have a table. Needs two of them. */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class ProbeGpuTest {
  private static final int[] COUNTS = {1, 1000, 100_000, 3_000_000};

  @Test
  void sumsAreRightByTheTimesOfAProbe() {
    List<Device> devices = List.copyOf(Devices.cuda().list().subList(0, 2));
    // Settings of limits are a condition of the times, so that none of an earlier run is found.
    for (int ctas : new int[] {61, 62}) {
      List<Communicator> ranks =
          Communicator.initAll(
              devices, CommunicatorConfig.defaults().withMaxCtas(ctas).with("NCCL4J_PROBE", "2"));
      Ranks.all(
          ranks,
          rank -> {
            String explained = rank.explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32);
            assertTrue(explained.contains("costs: measured, probe"), explained);
            sums(rank);
            return 0;
          });
      ranks.forEach(Communicator::close);
    }
  }

  private static void sums(Communicator rank) {
    int most = COUNTS[COUNTS.length - 1];
    try (DeviceMemory send = rank.device().memAlloc(4L * most);
        DeviceMemory recv = rank.device().memAlloc(4L * most);
        DeviceStream stream = rank.device().createStream()) {
      send.write(0, floats(most, rank.rank() + 1));
      for (int round = 0; round < 2; round++) {
        for (int count : COUNTS) {
          recv.write(0, floats(count, 0));
          rank.allReduce(send, recv, count, DataType.FLOAT32, RedOp.SUM, stream);
          stream.synchronize();
          ByteBuffer sum = floats(count, 0);
          recv.read(0, sum);
          for (int i = 0; i < count; i++) {
            assertEquals(3f * (i % 1000), sum.getFloat(4 * i), count + " elements");
          }
        }
        if (round == 0) { // the second time in windows
          rank.registerWindow(send);
          rank.registerWindow(recv);
        }
      }
    }
  }

  private static ByteBuffer floats(int count, int factor) {
    ByteBuffer floats = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      floats.putFloat(4 * i, factor * (i % 1000));
    }
    return floats;
  }
}
