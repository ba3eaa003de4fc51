package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Registration;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** Communicators that give their memory back for a while. */
@Timeout(600)
class SuspendTest {
  private static final CommunicatorConfig DEFAULTS = CommunicatorConfig.defaults();

  private static float sum(Communicator comm, DeviceStream stream, int count) {
    try (DeviceMemory data = Ranks.floats(count, i -> 1 + comm.rank())) {
      comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      return Ranks.floats(data)[count - 1];
    }
  }

  private static long held(Communicator comm) {
    return comm.memory().values().stream().mapToLong(Long::longValue).sum();
  }

  @Test
  void nothingIsHeldAfterClose() throws Exception {
    try (Ranks ranks = new Ranks(2, DEFAULTS.withName("short").with("NCCL_ALGO", "Ring"))) {
      ranks.communicators.forEach(comm -> assertTrue(held(comm) > 0));
      ranks.communicators.forEach(Communicator::close);
      ranks.communicators.forEach(comm -> assertEquals(Map.of(), comm.memory()));
      Communicator second = ranks.communicators.get(1);
      assertEquals("communicator short, rank 1 of 2", second.toString());
      String config = second.config().toString();
      assertTrue(config.startsWith("CommunicatorConfig[name=short, splitShare=default,"), config);
      assertTrue(config.contains("NCCL_ALGO=Ring"), config);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"P2P", "SHM"})
  void memoryIsGivenBackAndMadeAnew(String transport) throws Exception {
    try (Ranks ranks = new Ranks(3, DEFAULTS.withTransports(List.of(transport)))) {
      ranks.run(
          (comm, stream) -> {
            Communicator ring = comm.withOptions(CallOptions.defaults().withAlgorithm("Ring"));
            assertEquals(6, sum(comm, stream, 10_000));
            assertEquals(6, sum(ring, stream, 10_000));
            long before = held(comm);
            assertTrue(before > 0);
            for (int time = 0; time < 3; time++) {
              comm.suspend();
              assertTrue(comm.isSuspended());
              assertEquals(Map.of(), comm.memory());
              comm.resume();
              assertFalse(comm.isSuspended());
              assertEquals(before, held(comm));
              for (int count : new int[] {1, 100, 300_000}) {
                assertEquals(6, sum(comm, stream, count));
                assertEquals(6, sum(ring, stream, count));
              }
            }
          });
    }
  }

  @Test
  void anOperationAfterwardsIsRecordedOnce(@TempDir Path folder) throws Exception {
    try (Recording recording = new Recording()) {
      recording.enable("org.nccl4j.Operation");
      recording.start();
      try (Ranks ranks = new Ranks(2, DEFAULTS.withName("suspended once"))) {
        ranks.run(
            (comm, stream) -> {
              comm.suspend();
              comm.resume();
              assertEquals(3, sum(comm, stream, 100));
            });
      }
      Path file = folder.resolve("recorded.jfr");
      recording.dump(file);
      assertEquals(
          2,
          RecordingFile.readAllEvents(file).stream()
              .filter(event -> event.getEventType().getName().equals("org.nccl4j.Operation"))
              .filter(event -> event.getString("communicator").equals("suspended once"))
              .count());
    }
  }

  @Test
  void everythingIsRefusedMeanwhileAndSaysWhatToDo() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            comm.suspend();
            try (DeviceMemory data = Devices.host().memAlloc(64)) {
              assertRefused(
                  () -> comm.allReduce(data, data, 1, DataType.FLOAT32, RedOp.SUM, stream));
              assertRefused(() -> comm.send(data, 1, DataType.FLOAT32, 1 - comm.rank(), stream));
              assertRefused(() -> comm.registerWindow(data));
              assertRefused(() -> comm.signal(1 - comm.rank(), stream));
              assertRefused(() -> comm.split(0, 0));
              assertRefused(() -> comm.shrink(Set.of(), ShrinkMode.WAIT));
              assertRefused(() -> comm.withOptions(CallOptions.defaults()));
              assertRefused(comm::suspend);
            }
            comm.resume();
            assertEquals(3, sum(comm, stream, 10));
            InvalidUsageException twice = assertThrows(InvalidUsageException.class, comm::resume);
            assertTrue(twice.problem().contains("is not suspended"), twice.problem());
          });
    }
  }

  private static void assertRefused(Runnable call) {
    InvalidUsageException e = assertThrows(InvalidUsageException.class, call::run);
    assertTrue(e.problem().contains("is suspended"), e.problem());
    assertEquals("call resume on all ranks first", e.remedy());
  }

  @Test
  void whereOneRankCannotNoneIs() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (Communicator child = comm.split(0, comm.rank()).orElseThrow()) {
              assertCannot(comm, "split from it use its connections");
              assertCannot(child, "it was split from another communicator");
              assertEquals(3, sum(child, stream, 100));
            }
            try (DeviceMemory data = Devices.host().memAlloc(4096)) {
              Window window = comm.registerWindow(data);
              assertCannot(comm, "it has windows");
              comm.deregisterWindowOnAllRanks(window);
            }
            assertEquals(3, sum(comm, stream, 100));
            comm.suspend();
            comm.resume();
            assertEquals(3, sum(comm, stream, 100));
          });
    }
  }

  private static void assertCannot(Communicator comm, String why) {
    InvalidUsageException e = assertThrows(InvalidUsageException.class, comm::suspend);
    assertTrue(e.problem().contains("cannot be suspended on rank"), e.problem());
    assertTrue(e.problem().contains(why), e.problem());
  }

  @Test
  void aFailureMeanwhileIsHeardAndAShrunkCommunicatorGoesOn() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      CyclicBarrier allSuspended = new CyclicBarrier(3);
      ranks.run(
          (comm, stream) -> {
            comm.suspend();
            allSuspended.await();
            if (comm.rank() == 2) {
              comm.abort();
              return;
            }
            while (comm.asyncError().isEmpty()) {
              Thread.onSpinWait();
            }
            RuntimeException e = assertThrows(RuntimeException.class, comm::resume);
            assertTrue(e.getMessage().contains("aborted by rank 2"), e.getMessage());
            try (Communicator rest = comm.shrink(Set.of(2), ShrinkMode.ABORT)) {
              assertEquals(3, sum(rest, stream, 1000));
            }
          });
    }
  }

  private static void assertFinished(Communicator comm, DeviceStream stream) {
    try (DeviceMemory data = Ranks.floats(1, i -> 1)) {
      NcclException e =
          assertThrows(NcclException.class, () -> comm.send(data, 1, DataType.FLOAT32, 1, stream));
      assertEquals(ErrorId.CLOSED, e.id(), e.toString());
    }
  }

  /** Neither a suspension that fails nor a resumption has a finished rank take operations. */
  @Test
  void whatIsFinishedStaysSo() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            DeviceMemory data = Ranks.floats(1024, i -> 1);
            Registration kept = comm.rank() == 1 ? comm.register(data) : null;
            if (comm.rank() == 0) {
              comm.finish().join();
              assertFinished(comm, stream);
            }
            assertThrows(InvalidUsageException.class, comm::suspend);
            if (comm.rank() == 0) {
              assertFinished(comm, stream);
            } else {
              comm.deregister(kept);
            }
            comm.suspend();
            comm.resume();
            if (comm.rank() == 0) {
              assertFinished(comm, stream);
            }
          });
    }
  }

  /** Its patience is also for a suspension that waits for other ranks. */
  @Test
  void closeEndsASuspensionThatWaits() throws Exception {
    Duration longest = Duration.ofMinutes(10);
    CommunicatorConfig patient = DEFAULTS.withInitTimeout(longest).withOperationTimeout(longest);
    try (Ranks ranks = new Ranks(2, patient)) {
      Communicator one = ranks.communicators.get(0);
      FutureTask<NcclException> suspension =
          new FutureTask<>(() -> assertThrows(NcclException.class, one::suspend));
      Thread thread = new Thread(suspension);
      thread.start();
      while (thread.isAlive() && !Ranks.isInExchange(thread)) {
        Thread.onSpinWait();
      }
      one.close(Duration.ofMillis(1));
      assertEquals(ErrorId.STILL_RUNNING, suspension.get(300, TimeUnit.SECONDS).id());
    }
  }
}
