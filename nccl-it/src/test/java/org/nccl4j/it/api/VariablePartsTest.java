package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/** On the host device. */
@Timeout(120)
class VariablePartsTest extends VariableParts {
  private static final int MOST = 16;

  @Override
  List<Device> devices() {
    return Collections.nCopies(3, Devices.host());
  }

  @Override
  int rounds() {
    return 40;
  }

  @Override
  int mostElements() {
    return 5000;
  }

  @Test
  void changingCountsHoldNoMoreAndMoreMemory() throws Exception {
    exchange(4_000);
  }

  @Test
  @Tag("slow")
  void aHundredThousandChangingCountsHoldNoMoreAndMoreMemory() throws Exception {
    exchange(100_000);
  }

  private static void exchange(int calls) throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      exchange(ranks, 0, 1_000);
      long before = held();
      exchange(ranks, 1_000, calls);
      long after = held();
      assertTrue(after < before + (2 << 20), before + " bytes became " + after);
    }
  }

  /** Bytes of the heap that are reachable, as well as a collection tells. */
  private static long held() {
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }

  private static void exchange(Ranks ranks, int from, int to) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory send = comm.device().allocate(2 * MOST);
              DeviceMemory recv = comm.device().allocate(2 * MOST)) {
            for (int call = from; call < to; call++) {
              exchange(comm, stream, send, recv, new Random(call));
            }
            stream.synchronize();
          }
        });
  }

  private static void exchange(
      Communicator comm, DeviceStream stream, DeviceMemory send, DeviceMemory recv, Random random) {
    long[][] counts = new long[2][2]; // from a rank to a rank
    for (long[] row : counts) {
      row[0] = 1 + random.nextInt(MOST);
      row[1] = 1 + random.nextInt(MOST);
    }
    int rank = comm.rank();
    long[] offsets = {0, MOST};
    long[] incoming = {counts[0][rank], counts[1][rank]};
    comm.allToAllV(send, counts[rank], offsets, recv, incoming, offsets, DataType.INT8, stream);
  }
}
