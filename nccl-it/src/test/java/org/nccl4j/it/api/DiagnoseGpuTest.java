package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.it.doctor.DiagnoseCommand;
import picocli.CommandLine;

/** The command diagnose on GPUs while a kernel waits, before its deadline. Needs two GPUs. */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class DiagnoseGpuTest {
  private static final int COUNT = 1000;
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  /** Rank 1 comes late; both go on as if nothing had been. */
  @Test
  void whomAKernelWaitsForIsSaidWhileItWaits() throws InterruptedException {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofMinutes(5));
    CudaDevices gpus = Devices.cuda();
    List<Rank> ranks =
        Communicator.initAll(List.of(gpus.device(0), gpus.device(1)), config).stream()
            .map(Rank::new)
            .toList();
    ranks.get(0).allReduce();
    long start = System.nanoTime();
    String said = diagnose();
    while (!said.contains("rank 0 waits for rank 1")
        && System.nanoTime() - start < PATIENCE_NANOS) {
      Thread.sleep(20);
      said = diagnose();
    }
    assertTrue(said.contains("rank 0 waits for rank 1 in operation 1, all_reduce"), said);
    assertTrue(said.contains("1: all_reduce of 1000 float (sum), waiting for rank 1"), said);
    ranks.get(1).allReduce();
    ranks.forEach(Rank::checkAndClose);
  }

  private static String diagnose() {
    StringWriter out = new StringWriter();
    new CommandLine(new DiagnoseCommand())
        .setOut(new PrintWriter(out))
        .execute("-t", Long.toString(ProcessHandle.current().pid()));
    return out.toString();
  }

  /** A rank whose buffer is full of its number and one. */
  private static final class Rank {
    private final Communicator communicator;
    private final DeviceMemory data;
    private final DeviceStream stream;

    Rank(Communicator communicator) {
      this.communicator = communicator;
      data = communicator.device().allocate(4L * COUNT);
      stream = communicator.device().createStream();
      ByteBuffer values = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
      while (values.hasRemaining()) {
        values.putFloat(1 + communicator.rank());
      }
      data.write(0, values.flip());
    }

    void allReduce() {
      communicator.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
    }

    void checkAndClose() {
      stream.synchronize();
      for (float got : Ranks.floats(data)) {
        assertEquals(3, got);
      }
      stream.close();
      data.close();
      communicator.close();
    }
  }
}
