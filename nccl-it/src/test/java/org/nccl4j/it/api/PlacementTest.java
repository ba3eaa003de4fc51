package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Registration;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * Debug mode compares where buffers lie in windows, before an operation: on GPUs nobody else does,
 * and data would be taken from, or put to, the wrong place.
 */
@Timeout(600)
class PlacementTest {
  private static final int COUNT = 1000;

  private static CommunicatorConfig debug(String algo) {
    return CommunicatorConfig.defaults()
        .with("NCCL_CHECK_MODE", "DEBUG_GLOBAL")
        .with("NCCL_ALGO", algo)
        .withOperationTimeout(Duration.ofSeconds(60));
  }

  /** A rank's memory and the part of it that is passed. */
  private interface Preparation {
    DeviceMemory buffer(Communicator comm, DeviceMemory memory);
  }

  private static void assertNamed(String expected, Preparation preparation) throws Exception {
    try (Ranks ranks = new Ranks(2, debug("DirectTwoShot"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(8000);
                DeviceMemory other = Devices.host().memAlloc(8000)) {
              comm.registerWindow(other);
              DeviceMemory buffer = preparation.buffer(comm, memory);
              comm.allReduce(buffer, buffer, COUNT, DataType.INT32, RedOp.SUM, stream);
              NcclException e = assertThrows(NcclException.class, stream::synchronize);
              assertEquals(ErrorId.CALLS_DIFFER, e.id(), e.getMessage());
              assertTrue(e.getMessage().contains(expected), e.getMessage());
              assertTrue(e.getMessage().contains("offsets of their windows"), e.getMessage());
            }
          });
    }
  }

  @Test
  void otherOffsetsInAWindow() throws Exception {
    assertNamed(
        "rank 0 runs it by DirectTwoShot, sends at byte 0 of window 2, receives at byte 0 of"
            + " window 2, rank 1 by DirectTwoShot, sends at byte 800 of window 2, receives at"
            + " byte 800 of window 2",
        (comm, memory) -> {
          comm.registerWindow(memory);
          return memory.slice(comm.rank() * 800L, 4 * COUNT);
        });
  }

  /** Then it is as if nothing were registered. */
  @Test
  void otherOffsetsInMemoryThatEachRankRegistered() throws Exception {
    try (Ranks ranks = new Ranks(2, debug("DirectTwoShot,Ring"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(8000)) {
              Registration registration = comm.register(memory);
              DeviceMemory buffer = memory.slice(comm.rank() * 16L, 4 * COUNT);
              ByteBuffer values = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
              for (int i = 0; i < COUNT; i++) {
                values.putInt(4 * i, i + comm.rank());
              }
              buffer.write(0, values);
              comm.allReduce(buffer, buffer, COUNT, DataType.INT32, RedOp.SUM, stream);
              stream.synchronize();
              ByteBuffer sums = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
              buffer.read(0, sums);
              for (int i = 0; i < COUNT; i++) {
                assertEquals(2 * i + 1, sums.getInt(4 * i));
              }
              assertTrue(registration.obstacle().contains("of rank 1's"), registration.obstacle());
            }
          });
    }
  }

  @Test
  void aRankWithoutAWindow() throws Exception {
    assertNamed(
        "rank 1 without windows",
        (comm, memory) -> {
          comm.registerWindow(memory);
          return comm.rank() == 0 ? memory : Devices.host().allocate(4 * COUNT);
        });
  }

  @ParameterizedTest
  @ValueSource(strings = {"DirectOneShot,DirectTwoShot", "DirectOneShot", "Ring"})
  void whatFitsGoesOn(String algo) throws Exception {
    try (Ranks ranks = new Ranks(3, debug(algo))) {
      ranks.run(
          (comm, stream) -> {
            int n = comm.nRanks();
            float[] expected = new float[COUNT];
            Arrays.fill(expected, n);
            try (DeviceMemory send = Devices.host().memAlloc(4L * COUNT * n);
                DeviceMemory recv = Devices.host().memAlloc(4L * COUNT * n);
                DeviceMemory plain = Ranks.floats(COUNT, i -> 1)) {
              comm.registerWindow(send);
              comm.registerWindow(recv);
              // Where a way needs no window of the sender's, each rank's may be anywhere.
              DeviceMemory from = comm.rank() == 0 ? plain : send.slice(64, 4L * COUNT);
              ByteBuffer ones = ByteBuffer.allocate(4 * COUNT);
              plain.read(0, ones);
              from.write(0, ones.flip());
              if (!algo.equals("DirectOneShot,DirectTwoShot")) {
                comm.allGather(from, recv, COUNT, DataType.FLOAT32, stream);
              }
              send.write(0, ones.rewind());
              comm.allReduce(send, recv, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              assertArrayEquals(expected, Ranks.floats(recv.slice(0, 4L * COUNT)));
            }
          });
    }
  }
}
