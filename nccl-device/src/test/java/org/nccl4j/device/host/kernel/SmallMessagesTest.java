package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.P2pWork.Kind;
import org.nccl4j.operation.Protocol;

/** Messages of two ranks that are a step each, alone and one each way. */
@Timeout(600)
class SmallMessagesTest {
  /** Steps of LL128 have 768 bytes here, fewer than a small message elsewhere. */
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 * 16, 7 * 128, 4096);

  private static final int MOST = 1100;
  private static final int SLOTS = 64;

  private final Random random = new Random(47);
  private final LocalRanks ranks =
      new LocalRanks(2, LAYOUT, Duration.ofSeconds(30), SingleCopy.OFF);

  private static P2pWork work(Kind kind, int peer, int bytes) {
    return new P2pWork(
        kind, peer, null, 0, bytes, Protocol.LL128, P2pWork.Offer.NONE, /* copies= */ false);
  }

  private void launch(int rank, List<P2pWork> works, DeviceMemory send, DeviceMemory recv) {
    KernelCommunicator communicator = ranks.communicators.get(rank);
    communicator.launch(communicator.prepare(works), send, recv, ranks.streams.get(rank));
  }

  private void end() {
    ranks.streams.forEach(DeviceStream::isIdle);
    ranks.streams.forEach(DeviceStream::synchronize);
  }

  private byte[] content(int bytes) {
    byte[] content = new byte[bytes];
    random.nextBytes(content);
    return content;
  }

  private DeviceMemory memory(byte[] content) {
    DeviceMemory memory = ranks.device.memAlloc(content.length);
    memory.write(0, ByteBuffer.wrap(content));
    return memory;
  }

  private static byte[] read(DeviceMemory memory) {
    byte[] content = new byte[(int) memory.size()];
    memory.read(0, ByteBuffer.wrap(content));
    return content;
  }

  /** Each way as many bytes as it likes, to the other rank and to itself. */
  @Test
  void exchangesArriveWhole() {
    for (int turn = 0; turn < 2000; turn++) {
      int[] bytes = {1 + random.nextInt(MOST), 1 + random.nextInt(MOST)};
      boolean inPlace = turn % 3 == 1;
      bytes[1] = inPlace ? bytes[0] : bytes[1];
      List<byte[]> contents = List.of(content(bytes[0]), content(bytes[1]));
      DeviceMemory[] recvs = new DeviceMemory[2];
      List<DeviceMemory> owners = new ArrayList<>();
      boolean withOwn = turn % 3 == 0;
      for (int rank = 0; rank < 2; rank++) {
        DeviceMemory send = memory(contents.get(rank));
        recvs[rank] = inPlace ? send : memory(new byte[bytes[1 - rank]]);
        List<P2pWork> works = new ArrayList<>();
        works.add(work(Kind.SEND, 1 - rank, bytes[rank]));
        works.add(work(Kind.RECV, 1 - rank, bytes[1 - rank]));
        DeviceMemory own = memory(new byte[bytes[rank]]);
        if (withOwn) {
          works.add(
              new P2pWork(
                  Kind.SEND,
                  rank,
                  send,
                  0,
                  bytes[rank],
                  Protocol.LL128,
                  P2pWork.Offer.NONE,
                  false));
          works.add(
              new P2pWork(
                  Kind.RECV, rank, own, 0, bytes[rank], Protocol.LL128, P2pWork.Offer.NONE, false));
        }
        launch(rank, works, send, recvs[rank]);
        owners.add(send);
        owners.add(own);
      }
      end();
      for (int rank = 0; rank < 2; rank++) {
        String what = "turn " + turn + ", rank " + rank;
        assertArrayEquals(contents.get(1 - rank), read(recvs[rank]), what);
        if (withOwn) {
          assertArrayEquals(contents.get(rank), read(owners.get(2 * rank + 1)), what + ", own");
        }
        if (!inPlace) {
          recvs[rank].close();
        }
      }
      owners.forEach(DeviceMemory::close);
    }
    ranks.close();
  }

  /**
   * Both ranks are as far ahead as slots allow, and every second receive gives slots back: the
   * exchange receives before it sends.
   */
  @Test
  void exchangesWaitForNoSlotBeforeTheyReceive() {
    int bytes = 40;
    int before = 1;
    int ahead = SLOTS - before;
    List<List<byte[]>> contents = List.of(new ArrayList<>(), new ArrayList<>());
    List<List<DeviceMemory>> recvs = List.of(new ArrayList<>(), new ArrayList<>());
    List<DeviceMemory> owners = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      for (int n = 0; n < before + 2 * ahead + 1; n++) {
        List<P2pWork> works = new ArrayList<>();
        DeviceMemory from = null;
        DeviceMemory to = null;
        if (n <= before + ahead) {
          works.add(work(Kind.SEND, 1 - rank, bytes));
          contents.get(rank).add(content(bytes));
          from = memory(contents.get(rank).get(n));
          owners.add(from);
        }
        if (n < before || n >= before + ahead) {
          works.add(work(Kind.RECV, 1 - rank, bytes));
          to = memory(new byte[bytes]);
          recvs.get(rank).add(to);
        }
        launch(rank, works, from, to);
      }
    }
    end();
    for (int rank = 0; rank < 2; rank++) {
      for (int n = 0; n < recvs.get(rank).size(); n++) {
        DeviceMemory to = recvs.get(rank).get(n);
        assertArrayEquals(contents.get(1 - rank).get(n), read(to), "message " + n);
        to.close();
      }
    }
    owners.forEach(DeviceMemory::close);
    ranks.close();
  }
}
