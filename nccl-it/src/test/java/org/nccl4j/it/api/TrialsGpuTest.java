package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.api.plan.trial.TrialFile;
import org.nccl4j.api.plan.trial.TrialTimes;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/** Ranks on all GPUs try algorithms in the calls of a job. Needs GPUs. */
@Tag("gpu")
@Timeout(600)
class TrialsGpuTest {
  private static final int COUNT = 4096;
  private static final int BYTES = COUNT * Integer.BYTES;

  /** A period has at most 1,000 calls. */
  private static final int CALLS = 8_000;

  /** Calls between two looks at the sum. */
  private static final int CHECKED = 50;

  @TempDir Path folder;

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void ranksTryTheSameAlgorithmsInTheSameCalls(boolean windows) throws Exception {
    assumeTrue(Devices.cuda().list().size() > 1, "needs two GPUs");
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL4J_TRIALS", folder.toString());
    try (Ranks ranks =
        new Ranks(Communicator.initAll(List.copyOf(Devices.cuda().list()), config))) {
      ranks.run((comm, stream) -> call(comm, stream, windows));
    }
    Map<Long, Set<TrialTimes.Way>> ways = new HashMap<>();
    Set<TrialTimes.Way> tried = new HashSet<>();
    for (TrialTimes file : TrialFile.readAll(folder)) {
      for (TrialTimes.Sample sample : file.samples()) {
        ways.computeIfAbsent(sample.call(), missing -> new HashSet<>()).add(sample.way());
        tried.add(sample.way());
        assertTrue(sample.measured() > 0, sample.toString());
      }
    }
    ways.forEach((call, its) -> assertEquals(1, its.size(), "call " + call + " went by " + its));
    assertTrue(tried.size() > 1, tried.toString());
    System.out.println("measured " + ways.size() + " calls by " + tried);
  }

  private static void call(Communicator comm, DeviceStream stream, boolean windows) {
    DeviceMemory data = comm.device().memAlloc(BYTES);
    DeviceMemory sum = comm.device().memAlloc(BYTES);
    Window from = windows ? comm.registerWindow(data) : null;
    Window to = windows ? comm.registerWindow(sum) : null;
    ByteBuffer host = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.nativeOrder());
    int n = comm.nRanks();
    for (int call = 0; call < CALLS; call++) {
      boolean looks = call % CHECKED == CHECKED - 1;
      if (looks) {
        for (int i = 0; i < COUNT; i++) {
          host.putInt(4 * i, call + i * (comm.rank() + 1));
        }
        data.write(0, host.duplicate());
        sum.fill((byte) 0x5a);
      }
      comm.allReduce(data, sum, COUNT, DataType.INT32, RedOp.SUM, stream);
      if (looks) {
        stream.synchronize();
        sum.read(0, host.duplicate());
        for (int i = 0; i < COUNT; i++) {
          assertEquals(n * call + i * (n * (n + 1) / 2), host.getInt(4 * i));
        }
      }
    }
    replay((CudaStream) stream, () -> repeat(comm, data, sum, stream));
    if (windows) {
      comm.deregisterWindowOnAllRanks(from);
      comm.deregisterWindowOnAllRanks(to);
    }
    data.close();
    sum.close();
  }

  /** More calls than a period has. */
  private static void repeat(
      Communicator comm, DeviceMemory data, DeviceMemory sum, DeviceStream stream) {
    for (int call = 0; call < 1_100; call++) {
      comm.allReduce(data, sum, COUNT, DataType.INT32, RedOp.SUM, stream);
    }
  }

  /** Captured calls are not measured, and their graph runs. */
  private static void replay(CudaStream stream, Runnable calls) {
    stream.beginCapture();
    calls.run();
    try (CudaGraph graph = stream.endCapture()) {
      graph.launch(stream);
      stream.synchronize();
    }
  }
}
