package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Operations whose receivers read from the senders' buffers: messages, and failures. */
@Timeout(600)
class SingleCopyTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 * 16, 7 * 128, 1024);
  private static final SingleCopy IN_PROCESS = new SingleCopy(16, SingleCopy.NEVER, Level.DEBUG);
  private static final SingleCopy BETWEEN_PROCESSES =
      new SingleCopy(SingleCopy.NEVER, 16, Level.DEBUG);
  private static final SingleCopy MAPPED =
      new SingleCopy(SingleCopy.NEVER, SingleCopy.NEVER, 16, Level.DEBUG);
  private static final int MOST = 40_000;

  static Stream<SingleCopy> ways() {
    return Stream.of(IN_PROCESS, BETWEEN_PROCESSES, MAPPED);
  }

  /** Each rank sends each other rank a message of its own, from and to odd places. */
  @ParameterizedTest
  @MethodSource("ways")
  void messagesOfAllSizesArrive(SingleCopy way) {
    Random random = new Random(71);
    int n = 3;
    try (LocalRanks ranks = new LocalRanks(n, LAYOUT, Duration.ofSeconds(30), way)) {
      for (int turn = 0; turn < 60; turn++) {
        int[][] bytes = new int[n][n];
        List<DeviceMemory> sends = new ArrayList<>();
        List<DeviceMemory> recvs = new ArrayList<>();
        byte[][] contents = new byte[n][n * MOST];
        for (int rank = 0; rank < n; rank++) {
          random.nextBytes(contents[rank]);
          DeviceMemory send = ranks.device.memAlloc(n * MOST);
          send.write(0, ByteBuffer.wrap(contents[rank]));
          sends.add(send);
          recvs.add(ranks.device.memAlloc(n * MOST));
          for (int to = 0; to < n; to++) {
            bytes[rank][to] = random.nextInt(turn % 2 == 0 ? 3000 : MOST - 7);
          }
        }
        int shift = random.nextInt(7);
        for (int rank = 0; rank < n; rank++) {
          List<P2pWork> works = new ArrayList<>();
          for (int peer = 0; peer < n; peer++) {
            works.add(send(peer, sends.get(rank), peer * MOST + shift, bytes[rank][peer]));
            works.add(recv(peer, recvs.get(rank), peer * MOST, bytes[peer][rank]));
          }
          KernelCommunicator communicator = ranks.communicators.get(rank);
          communicator.launch(communicator.prepare(works), null, null, ranks.streams.get(rank));
        }
        finish(ranks);
        for (int rank = 0; rank < n; rank++) {
          for (int from = 0; from < n; from++) {
            byte[] got = new byte[bytes[from][rank]];
            recvs.get(rank).read(from * MOST, ByteBuffer.wrap(got));
            int at = rank * MOST + shift;
            byte[] wanted = java.util.Arrays.copyOfRange(contents[from], at, at + got.length);
            assertArrayEquals(wanted, got, "turn " + turn + " from " + from + " to " + rank);
          }
        }
        sends.forEach(DeviceMemory::close);
        recvs.forEach(DeviceMemory::close);
      }
    }
  }

  /** Both ranks receive into the buffer that they send, which the slots can hold. */
  @ParameterizedTest
  @MethodSource("ways")
  void ranksExchangeTheirBuffersInPlace(SingleCopy way) {
    int bytes = ConnectionLayout.STEPS * LAYOUT.simpleSlotBytes();
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), way)) {
      List<DeviceMemory> buffers = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        buffers.add(ranks.device.memAlloc(bytes));
      }
      for (int turn = 0; turn < 20; turn++) {
        for (int rank = 0; rank < 2; rank++) {
          DeviceMemory buffer = buffers.get(rank);
          buffer.fill((byte) (2 * turn + rank));
          KernelCommunicator communicator = ranks.communicators.get(rank);
          List<P2pWork> both =
              List.of(send(1 - rank, buffer, 0, bytes), recv(1 - rank, buffer, 0, bytes));
          communicator.launch(communicator.prepare(both), null, null, ranks.streams.get(rank));
        }
        finish(ranks);
        for (int rank = 0; rank < 2; rank++) {
          byte[] got = new byte[bytes];
          buffers.get(rank).read(0, ByteBuffer.wrap(got));
          for (int at = 0; at < bytes; at++) {
            assertEquals((byte) (2 * turn + 1 - rank), got[at], "turn " + turn + " at " + at);
          }
        }
      }
      buffers.forEach(DeviceMemory::close);
    }
  }

  /** A message of a rank to itself may reach a buffer before another rank has read that. */
  @ParameterizedTest
  @MethodSource("ways")
  void aBufferThatTheRankItselfSendsToIsNotExposed(SingleCopy way) {
    int bytes = 256; // one step, which the kernel sends before it copies
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), way);
        DeviceMemory buffer = ranks.device.memAlloc(bytes);
        DeviceMemory other = ranks.device.memAlloc(bytes);
        DeviceMemory answer = ranks.device.memAlloc(bytes);
        DeviceMemory theirs = ranks.device.memAlloc(bytes)) {
      other.fill((byte) 2);
      for (int turn = 0; turn < 3; turn++) {
        buffer.fill((byte) 1);
        launch(
            ranks,
            0,
            List.of(
                send(1, buffer, 0, bytes),
                send(0, other, 0, bytes),
                recv(0, buffer, 0, bytes),
                recv(1, answer, 0, bytes)));
        while (last(buffer) != 2) { // until the timeout of the test
          ranks.streams.get(0).isIdle();
        }
        launch(ranks, 1, List.of(recv(0, theirs, 0, bytes), send(0, other, 0, bytes)));
        finish(ranks);
        assertEquals(1, last(theirs), "turn " + turn);
      }
    }
  }

  private static void launch(LocalRanks ranks, int rank, List<P2pWork> works) {
    KernelCommunicator communicator = ranks.communicators.get(rank);
    communicator.launch(communicator.prepare(works), null, null, ranks.streams.get(rank));
  }

  private static byte last(DeviceMemory buffer) {
    byte[] got = new byte[1];
    buffer.read(buffer.size() - 1, ByteBuffer.wrap(got));
    return got[0];
  }

  /** A message that the slots can hold is sent before the receiver's call, as without exposures. */
  @Test
  void aSendThatFitsTheSlotsEndsWithoutItsReceiver() {
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), IN_PROCESS)) {
      broadcast(ranks, 0, 1000).close();
      broadcast(ranks, 1, 1000).close();
      finish(ranks);
      int bytes = ConnectionLayout.STEPS * LAYOUT.simpleSlotBytes();
      DeviceMemory buffer = ranks.device.allocate(bytes);
      buffer.fill((byte) 9);
      KernelCommunicator sender = ranks.communicators.get(0);
      sender.launch(
          sender.prepare(List.of(send(1, buffer, 0, bytes))), null, null, ranks.streams.get(0));
      ranks.streams.get(0).synchronize();
      buffer.fill((byte) 0);
      KernelCommunicator receiver = ranks.communicators.get(1);
      receiver.launch(
          receiver.prepare(List.of(recv(0, buffer, 0, bytes))), null, null, ranks.streams.get(1));
      ranks.streams.get(1).synchronize();
      byte[] got = new byte[1];
      buffer.read(bytes - 1, ByteBuffer.wrap(got));
      assertEquals(9, got[0]);
      buffer.close();
    }
  }

  /** The memory is unmapped: a receiver that read it would end the process. */
  @Test
  void aReceiverThatComesAfterTheSendersFailureDoesNotReadItsFreedBuffer() {
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, Duration.ofMillis(50), IN_PROCESS)) {
      DeviceMemory mine = broadcast(ranks, 0, 6000);
      assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
      mine.close();
      DeviceMemory theirs = broadcast(ranks, 1, 6000);
      assertThrows(TimeoutException.class, () -> ranks.streams.get(1).synchronize());
      theirs.close();
    }
  }

  private static DeviceMemory broadcast(LocalRanks ranks, int rank, int bytes) {
    CollectiveWork work =
        new CollectiveWork(
            Operation.BROADCAST,
            Algorithm.RING,
            Protocol.SIMPLE,
            DataType.INT8,
            RedOp.SUM,
            0,
            bytes,
            1,
            1024);
    DeviceMemory buffer = ranks.device.allocate(bytes);
    KernelCommunicator communicator = ranks.communicators.get(rank);
    communicator.launch(communicator.prepare(work), buffer, buffer, ranks.streams.get(rank));
    return buffer;
  }

  private static void finish(LocalRanks ranks) {
    ranks.streams.forEach(DeviceStream::isIdle);
    ranks.streams.forEach(DeviceStream::synchronize);
  }

  private static P2pWork send(int peer, DeviceMemory buffer, long offset, long bytes) {
    return work(P2pWork.Kind.SEND, peer, buffer, offset, bytes);
  }

  private static P2pWork recv(int peer, DeviceMemory buffer, long offset, long bytes) {
    return work(P2pWork.Kind.RECV, peer, buffer, offset, bytes);
  }

  private static P2pWork work(
      P2pWork.Kind kind, int peer, DeviceMemory buffer, long offset, long bytes) {
    return new P2pWork(
        kind, peer, buffer, offset, bytes, Protocol.SIMPLE, null, /* copies= */ false);
  }
}
