package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
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
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** A rank that closes while another's kernel waits for it. Needs two GPUs. */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class EarlyCloseGpuTest {
  private static final int COUNT = 1 << 20;

  private static void sum(Communicator communicator, DeviceMemory data, DeviceStream stream) {
    communicator.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
  }

  /** The deadline is far beyond the time that the test may take. */
  @Test
  void whoWaitsForItInAKernelFails() {
    List<? extends Device> gpus = Devices.cuda().list().subList(0, 2);
    CommunicatorConfig patient =
        CommunicatorConfig.defaults()
            .withName("patient")
            .withOperationTimeout(Duration.ofMinutes(10));
    List<Communicator> ranks = Communicator.initAll(List.copyOf(gpus), patient);
    CountDownLatch launched = new CountDownLatch(1);
    Ranks.all(
        ranks,
        rank -> {
          try (DeviceStream stream = rank.device().createStream();
              DeviceMemory data = rank.device().allocate(4L * COUNT)) {
            sum(rank, data, stream);
            sum(rank, data, stream);
            stream.synchronize();
            if (rank.rank() == 1) {
              awaitLaunch(launched);
              rank.close();
            } else {
              sum(rank, data, stream);
              launched.countDown();
              assertMissed(assertThrows(NcclException.class, stream::synchronize));
              rank.close();
            }
          }
          return 0;
        });
  }

  private static void assertMissed(NcclException error) {
    assertEquals(ErrorId.RANK_CLOSED, error.id(), error.toString());
    assertTrue(
        error
            .problem()
            .contains("rank 1 closed communicator patient after collective 2, before collective 3"),
        error.problem());
  }

  private static void awaitLaunch(CountDownLatch launched) {
    try {
      launched.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
