package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.DeviceCommunicator.Requirements;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.it.cli.Main;

/** A user's own kernels on the host, and what the device API gives to those on GPUs. */
@Timeout(600)
class DeviceCommunicatorTest {
  private static final int N = 3;
  private static final int COUNT = 5000;
  private static final Duration PATIENCE = Duration.ofSeconds(300);

  /** An all-reduce as a user would write it. */
  private static void ownAllReduce(DeviceCommunicator device, Window send, Window recv, int rank) {
    device.barrier(0, PATIENCE); // everybody's data are there
    float[] sum = new float[COUNT];
    for (int peer : device.team()) {
      float[] theirs = Ranks.floats(send.peer(peer));
      for (int i = 0; i < COUNT; i++) {
        sum[i] += theirs[i];
      }
    }
    ByteBuffer result = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
    result.asFloatBuffer().put(sum);
    recv.peer(rank).write(0, result);
    device.barrier(0, PATIENCE); // nobody reads any more
  }

  @Test
  void aUsersOwnAllReduce() throws Exception {
    try (Ranks ranks = new Ranks(N)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory in = Devices.host().memAlloc(4 * COUNT);
                DeviceMemory out = Devices.host().memAlloc(4 * COUNT)) {
              Window send = comm.registerWindow(in);
              Window recv = comm.registerWindow(out);
              try (DeviceCommunicator device =
                  comm.createDeviceCommunicator(Requirements.defaults().withBarriers(2))) {
                assertEquals(List.of(0, 1, 2), device.team());
                for (int round = 1; round <= 50; round++) {
                  ByteBuffer data = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
                  for (int i = 0; i < COUNT; i++) {
                    data.putFloat(round * (comm.rank() + 1) + i);
                  }
                  in.write(0, data.flip());
                  stream.launchHostFunction(() -> ownAllReduce(device, send, recv, comm.rank()));
                  stream.synchronize();
                  float[] got = Ranks.floats(out);
                  for (int i = 0; i < COUNT; i++) {
                    assertEquals(round * 6 + 3 * i, got[i]);
                  }
                }
              }
              comm.deregisterWindowOnAllRanks(send);
              comm.deregisterWindowOnAllRanks(recv);
            }
          });
    }
  }

  @Test
  void handlesSayWhereWindowsAre() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(1000)) {
              Window window = comm.registerWindow(memory);
              ByteBuffer handle = ByteBuffer.allocate(48).order(ByteOrder.nativeOrder());
              Devices.host().wrap(window.deviceHandle(), 48).read(0, handle);
              long base = handle.getLong(0);
              long stride = handle.getLong(8);
              assertEquals(window.peer(0).address(), base);
              assertEquals(window.peer(1).address(), base + stride);
              assertEquals(1000, handle.getLong(16));
              assertEquals(comm.rank(), handle.getInt(24));
              assertEquals(2, handle.getInt(28));
              assertEquals(0, handle.getLong(32), "no multicast on the host");
              assertEquals(window.number(), handle.getLong(40));
              assertTrue(window.multimemAddress().isEmpty());
              comm.deregisterWindowOnAllRanks(window);
              assertThrows(InvalidUsageException.class, window::deviceHandle);
            }
          });
    }
  }

  /** Its ranks may be others. */
  @Test
  void aWindowOfAnotherCommunicatorIsRefused() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(64);
                Communicator reversed = comm.split(0, -comm.rank()).orElseThrow();
                DeviceCommunicator device =
                    comm.createDeviceCommunicator(Requirements.defaults().withSignals(1))) {
              Window theirs = reversed.registerWindow(memory);
              DeviceCommunicator.Put put =
                  new DeviceCommunicator.Put(1 - comm.rank(), theirs, 0, theirs, 8, 8);
              assertThrows(InvalidArgumentException.class, () -> device.put(put, 0, PATIENCE));
              reversed.deregisterWindowOnAllRanks(theirs);
            }
          });
    }
  }

  @Test
  void aRankThatDoesNotComeIsATimeout() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            DeviceCommunicator device =
                comm.createDeviceCommunicator(Requirements.defaults().withBarriers(1));
            if (comm.rank() == 0) {
              assertThrows(TimeoutException.class, () -> device.barrier(0, Duration.ofMillis(100)));
            }
            assertThrows(
                InvalidArgumentException.class, () -> device.barrier(1, Duration.ofMillis(1)));
            device.close();
            assertThrows(
                InvalidUsageException.class, () -> device.barrier(0, Duration.ofMillis(1)));
            assertThrows(
                InvalidArgumentException.class,
                () -> comm.createDeviceCommunicator(Requirements.defaults().withBarriers(-1)));
          });
    }
  }

  /** Every rank asks for one and gets the message; all can have one afterwards. */
  private static void everyRankIsTold(String message, Ranks.Body body) throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            var error = assertThrows(InvalidArgumentException.class, () -> body.run(comm, stream));
            assertTrue(error.getMessage().contains(message), error.getMessage());
            comm.createDeviceCommunicator(Requirements.defaults().withBarriers(1).withSlots(1))
                .close();
          });
    }
  }

  @Test
  void whatIsWrongOnOneRankIsToldToAll() throws Exception {
    everyRankIsTold(
        "createDeviceCommunicator on rank 1 of communicator",
        (comm, stream) ->
            comm.createDeviceCommunicator(
                Requirements.defaults().withBarriers(comm.rank() == 1 ? 4097 : 1)));
  }

  @Test
  void numbersThatDifferBetweenRanks() throws Exception {
    everyRankIsTold(
        "device communicator with 1 barriers, 0 slots and 0 signals and rank 1 one with 2 barriers",
        (comm, stream) ->
            comm.createDeviceCommunicator(Requirements.defaults().withBarriers(1 + comm.rank())));
    everyRankIsTold(
        "with 0 barriers, 0 slots and 0 signals and rank 1 one with 0 barriers, 1 slots",
        (comm, stream) ->
            comm.createDeviceCommunicator(Requirements.defaults().withSlots(comm.rank())));
    everyRankIsTold(
        "0 slots and 2 signals and rank 1 one with 0 barriers, 0 slots and 3 signals",
        (comm, stream) ->
            comm.createDeviceCommunicator(Requirements.defaults().withSignals(2 + comm.rank())));
  }

  @Test
  void aWindowIsNoDeviceCommunicator() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(576)) { // as much as the other's
              var error =
                  assertThrows(
                      InvalidUsageException.class,
                      () -> {
                        if (comm.rank() == 0) {
                          comm.createDeviceCommunicator(Requirements.defaults().withBarriers(1));
                        } else {
                          comm.registerWindow(memory);
                        }
                      });
              assertTrue(
                  error.getMessage().contains("rank 0 calls createDeviceCommunicator and rank 1"),
                  error.getMessage());
            }
          });
    }
  }

  @Test
  void inAGroupItIsRefusedAndNotWaitedFor() {
    try (Ranks ranks = new Ranks(2)) {
      var error =
          assertThrows(
              InvalidUsageException.class,
              () ->
                  Group.run(
                      () ->
                          ranks
                              .communicators
                              .get(0)
                              .createDeviceCommunicator(Requirements.defaults().withBarriers(1))));
      assertTrue(error.getMessage().contains("is called in a group"), error.getMessage());
    }
  }

  /** One after the other, without the communicator's end between. */
  @Test
  void nothingIsLeftOfThoseThatAreClosed() throws Exception {
    long[] mapped = new long[2];
    try (Ranks ranks = new Ranks(2)) {
      for (int round = 0; round < 2; round++) {
        ranks.run(
            (comm, stream) -> {
              for (int each = 0; each < 100; each++) {
                comm.createDeviceCommunicator(Requirements.defaults().withBarriers(2).withSlots(3))
                    .close();
              }
            });
        mapped[round] = SharedSegments.now().count();
      }
    }
    assertTrue(mapped[1] <= mapped[0], () -> "mappings: " + Arrays.toString(mapped));
  }

  @Test
  void headersAreUnpacked(@TempDir Path folder) throws Exception {
    Path directory = folder.resolve("include");
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int status =
        Main.run(
            new PrintWriter(out), new PrintWriter(err), "device-headers", directory.toString());
    assertEquals(0, status, err::toString);
    Path header = directory.resolve("nccl4j_device.cuh");
    assertTrue(Files.readString(header).contains("struct nccl4jWindow"));
    Path reductions = directory.resolve("nccl4j_reduction.cuh");
    assertTrue(Files.readString(reductions).contains("NCCL4J_REDUCTION("));
    assertEquals(
        List.of(header.toString(), reductions.toString()), out.toString().lines().toList());
    Files.writeString(folder.resolve("file"), "");
    assertEquals(
        1,
        Main.run(
            new PrintWriter(out),
            new PrintWriter(err),
            "device-headers",
            folder.resolve("file").resolve("below").toString()));
    assertTrue(err.toString().contains("remedy"), err::toString);
  }
}
