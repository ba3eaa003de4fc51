package org.nccl4j.it.api;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/**
 * Times of puts between two hosts over the loopback interface, with and without zero copy by turns
 * in one run: docs/benchmarks/net.md.
 */
@Tag("slow")
class PutTimes {
  private static final int[] SIZES = {64 << 10, 512 << 10, 4 << 20, 32 << 20};
  private static final int ROUNDS = 5;
  private static final String[] SETTINGS = {"off", "registered", "all"};

  @Test
  void putsBetweenHosts() throws Exception {
    double[][][] times = new double[SETTINGS.length][SIZES.length][ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
      for (int which = 0; which < SETTINGS.length; which++) {
        CommunicatorConfig config =
            CommunicatorConfig.defaults()
                .withTransports(List.of("NET"))
                .with("NCCL_NET", "Socket")
                .with("NCCL4J_NET_ZERO_COPY", SETTINGS[which]);
        measure(config, round < 0 ? new double[SIZES.length][1] : times[which], Math.max(0, round));
      }
    }
    for (int size = 0; size < SIZES.length; size++) {
      StringBuilder line = new StringBuilder(SIZES[size] + " bytes:");
      for (int which = 0; which < SETTINGS.length; which++) {
        double[] all = times[which][size];
        Arrays.sort(all);
        line.append(
            "  %s %.0f us (least %.0f)".formatted(SETTINGS[which], all[ROUNDS / 2], all[0]));
      }
      System.out.println(line);
    }
  }

  private static void measure(CommunicatorConfig config, double[][] into, int round)
      throws Exception {
    try (Ranks ranks = Ranks.onHosts("ab", config)) {
      ranks.run(
          (comm, stream) -> {
            int most = SIZES[SIZES.length - 1];
            try (DeviceMemory source = Devices.host().memAlloc(most);
                DeviceMemory target = Devices.host().memAlloc(most)) {
              Window from = comm.registerWindow(source);
              Window to = comm.registerWindow(target);
              for (int size = 0; size < SIZES.length; size++) {
                int count = Math.max(10, Math.min(200, (64 << 20) / SIZES[size]));
                exchange(comm, stream, source, to, SIZES[size], count / 4 + 1);
                long begin = System.nanoTime();
                exchange(comm, stream, source, to, SIZES[size], count);
                double micros = (System.nanoTime() - begin) / 1e3 / count;
                if (comm.rank() == 0) {
                  into[size][round] = micros;
                }
              }
              comm.deregisterWindowOnAllRanks(to);
              comm.deregisterWindowOnAllRanks(from);
            }
          });
    }
  }

  /** Rank 0 puts, and waits for the signal that rank 1 sends once the data are there. */
  private static void exchange(
      Communicator comm,
      DeviceStream stream,
      DeviceMemory source,
      Window to,
      int bytes,
      int count) {
    int other = 1 - comm.rank();
    for (int i = 0; i < count; i++) {
      if (comm.rank() == 0) {
        comm.putSignal(source, bytes, DataType.INT8, other, to, 0, stream);
        comm.waitSignal(Map.of(other, 1), stream);
      } else {
        comm.waitSignal(Map.of(other, 1), stream);
        comm.signal(other, stream);
      }
      stream.synchronize();
    }
  }
}
