package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.SystemErrorException;

/** Windows refuse wrong use on all ranks alike, and the communicator stays usable. */
@Timeout(600)
class WindowRefusalTest {
  private static final int N = 3;

  private static DeviceMemory alloc(long bytes) {
    return Devices.host().memAlloc(bytes);
  }

  private static void everyRankFails(
      Class<? extends NcclException> type, String message, Ranks.Body body) throws Exception {
    try (Ranks ranks = new Ranks(N)) {
      ranks.run(
          (comm, stream) -> {
            NcclException e = assertThrows(type, () -> body.run(comm, stream));
            assertTrue(e.getMessage().contains(message), e.getMessage());
            try (DeviceMemory memory = alloc(64)) { // and the communicator is as good as before
              comm.deregisterWindowOnAllRanks(comm.registerWindow(memory));
            }
          });
    }
  }

  @Test
  void sizesThatDiffer() throws Exception {
    everyRankFails(
        InvalidArgumentException.class,
        "rank 0 registers a window of 4096 bytes and rank 2 one of 4100",
        (comm, stream) -> {
          try (DeviceMemory memory = alloc(8192)) {
            comm.registerWindow(memory.slice(0, comm.rank() == 2 ? 4100 : 4096));
          }
        });
  }

  @Test
  void deregisteringInUse() throws Exception {
    AtomicReference<DeviceStream> waiting = new AtomicReference<>();
    try (Ranks ranks = new Ranks(N)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = alloc(64);
                DeviceMemory one = alloc(64)) {
              Window window = comm.registerWindow(memory);
              if (comm.rank() == 1) {
                comm.waitSignal(Map.of(0, 1), stream); // holds the put back
                comm.putSignal(one, 8, DataType.INT64, 2, window, 0, stream);
                waiting.set(stream);
              }
              InvalidUsageException e =
                  assertThrows(
                      InvalidUsageException.class, () -> comm.deregisterWindowOnAllRanks(window));
              assertTrue(e.getMessage().contains("while operations of rank 1 use it"));
              assertTrue(window.isRegistered());
              if (comm.rank() == 0) {
                comm.signal(1, stream);
              }
              stream.synchronize();
              comm.deregisterWindowOnAllRanks(window);
            }
          });
    }
  }

  /** Told by the setting's name, and not only by the system call's. */
  @ParameterizedTest
  @ValueSource(strings = {"100000G", "4000000000G"})
  void moreAddressesThanThereAre(String stride) throws Exception {
    CommunicatorConfig much = CommunicatorConfig.defaults().with("NCCL_WIN_STRIDE", stride);
    try (Ranks ranks = new Ranks(3, much)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = alloc(64)) {
              SystemErrorException e =
                  assertThrows(SystemErrorException.class, () -> comm.registerWindow(memory));
              assertTrue(e.problem().contains("rank 0 of communicator"), e.problem());
              assertTrue(e.problem().contains("cannot reserve"), e.problem());
              assertTrue(e.remedy().contains("NCCL_WIN_STRIDE"), e.remedy());
              comm.allReduce(memory, memory, 4, DataType.INT32, RedOp.SUM, stream);
              stream.synchronize();
            }
          });
    }
  }

  @Test
  void wrongPutsAndSignals() throws Exception {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory memory = alloc(64)) {
      ranks.run(
          (comm, stream) -> {
            assertThrows(InvalidUsageException.class, () -> comm.signal(0, stream));
            try (DeviceMemory mine = alloc(64)) {
              Window window = comm.registerWindow(mine);
              DataType f32 = DataType.FLOAT32;
              for (Ranks.Body wrong :
                  List.<Ranks.Body>of(
                      (c, s) -> c.putSignal(memory, 17, f32, 0, window, 0, s),
                      (c, s) -> c.putSignal(memory, 1, f32, 0, window, 61, s),
                      (c, s) -> c.putSignal(memory, 1, f32, 0, window, -1, s),
                      (c, s) -> c.putSignal(memory, -1, f32, 0, window, 0, s),
                      (c, s) -> c.putSignal(memory, 1, f32, 2, window, 0, s),
                      (c, s) -> c.putSignal(null, 1, f32, 0, window, 0, s),
                      (c, s) -> c.putSignal(memory.slice(0, 8), 3, f32, 0, window, 0, s),
                      (c, s) -> c.putSignal(memory, 1, f32, 0, window, 0, null),
                      (c, s) -> c.signal(-1, s),
                      (c, s) -> c.waitSignal(Map.of(0, 0), s),
                      (c, s) -> c.waitSignal(Map.of(5, 1), s))) {
                assertThrows(InvalidArgumentException.class, () -> wrong.run(comm, stream));
              }
              comm.deregisterWindowOnAllRanks(window);
              assertThrows(
                  InvalidUsageException.class,
                  () -> comm.putSignal(memory, 1, f32, 0, window, 0, stream));
            }
          });
    }
  }
}
