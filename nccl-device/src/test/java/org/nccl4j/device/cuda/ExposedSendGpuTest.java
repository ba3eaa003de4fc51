package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.operation.Protocol;

/**
 * Sends and receives of kernels whose connections a thread carries in the place of proxies and
 * network cards: it copies from and to users' buffers, as kernels tell it, or slots.
 */
@Tag("gpu")
@Timeout(600)
class ExposedSendGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(20);
  private static final int CHANNELS = 2;
  private static final int SLICE = 8 << 10;
  private static final int ROUNDS = 40;
  private static final int MESSAGES = 3;
  private static final int MOST = 700_000;
  private static final int ROOM = MESSAGES * (MOST + 64);
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final ConnectionLayout LAYOUT =
      new ConnectionLayout(
          512 * ConnectionLayout.CHANNELS,
          512 * ConnectionLayout.CHANNELS,
          SLICE * ConnectionLayout.CHANNELS);
  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  /** Both regions of an end, in pinned memory. */
  private static final class End implements AutoCloseable {
    private final Gpu gpu;
    private final long host;
    private final ByteBuffer data;
    private final ByteBuffer credit;
    private final Connection connection;

    End(CudaDevice device) {
      gpu = device.gpu();
      int credits = (int) ConnectionLayout.CREDIT_BYTES;
      int size = (int) LAYOUT.dataBytes() + credits + SLICE;
      host = gpu.context().get(() -> CudaLibrary.allocateHost(size, gpu));
      ByteBuffer all = NativeMemory.buffer(host, size).order(ByteOrder.nativeOrder());
      all.put(0, new byte[size]);
      int dataBytes = (int) LAYOUT.dataBytes();
      data = all.slice(0, dataBytes).order(ByteOrder.nativeOrder());
      credit = all.slice(dataBytes, credits).order(ByteOrder.nativeOrder());
      long seen = gpu.context().get(() -> CudaLibrary.hostDeviceAddress(host, gpu));
      DeviceMemory memory = device.wrap(seen, size);
      Connection plain =
          new Connection(
              memory.slice(0, dataBytes),
              memory.slice(dataBytes, credits),
              CHANNELS,
              /* lines= */ false);
      connection =
          plain.withBuffers(
              device.exposedPuts(plain, LAYOUT, 0), device.placedPuts()); // marks alone
    }

    long slot(int channel, long step) {
      return connection.data().address() + LAYOUT.simple(step) + (long) channel * SLICE;
    }

    @Override
    public void close() {
      gpu.context().run(() -> CudaLibrary.freeHost(host, gpu));
    }
  }

  /** The proxies of one channel and direction. */
  private static final class Carrier {
    private final End sender;
    private final End receiver;
    private final int channel;
    private final int word;
    private final Random random;

    /** Pinned memory for a step: GPUs may have no way to each other. */
    private final long staging;

    private long moved;
    private int exposed;
    private int placed;

    Carrier(End sender, End receiver, int channel, Random random) {
      this.sender = sender;
      this.receiver = receiver;
      this.channel = channel;
      this.word = ConnectionLayout.word(channel);
      this.random = random;
      this.staging = sender.host + LAYOUT.dataBytes() + ConnectionLayout.CREDIT_BYTES;
    }

    private static long load(ByteBuffer words, long at) {
      return (long) LONG.getAcquire(words, (int) at);
    }

    /** Moves a step, if there is one and a slot for it. */
    void turn() {
      long step = moved;
      if (load(sender.data, word) <= step
          || step >= load(receiver.credit, word) + ConnectionLayout.STEPS) {
        return;
      }
      int size = sender.data.getInt(word + (int) ConnectionLayout.size(step));
      int bytes = size & ~ConnectionLayout.EXPOSED;
      long from = sender.slot(channel, step);
      if (bytes != size) {
        from = load(sender.data, word + ConnectionLayout.exposedFrom(step));
        exposed++;
      }
      long to = target(step, bytes);
      sender.gpu.hostCopies().move(staging, from, bytes);
      receiver.gpu.hostCopies().move(to == 0 ? receiver.slot(channel, step) : to, staging, bytes);
      if (to != 0) {
        receiver.data.putLong(word + (int) ConnectionLayout.placed(step), step + 1);
        placed++;
      }
      int call = word + (int) ConnectionLayout.call(step);
      receiver.data.putInt(call, sender.data.getInt(call));
      moved++;
      LONG.setRelease(receiver.data, word, moved);
      LONG.setRelease(sender.credit, word, moved);
    }

    /** Where the kernel wants a step; 0 for the slot, as where a receive is not moved in time. */
    private long target(long step, int bytes) {
      long at = word + ConnectionLayout.wanted(step);
      long told = load(receiver.credit, at + Long.BYTES);
      boolean wanted =
          load(receiver.credit, word + ConnectionLayout.WANTED) > step
              && told == (step + 1 << ConnectionLayout.WANTED_STEP | bytes);
      return wanted && random.nextInt(4) > 0 ? load(receiver.credit, at) : 0;
    }
  }

  /** By sender. */
  private final List<End> sending = new ArrayList<>();

  private final List<End> receiving = new ArrayList<>();
  private final List<KernelCommunicator> communicators = new ArrayList<>();
  private final List<Carrier> carriers = new ArrayList<>();
  private volatile boolean over;

  private void connect(GpuRanks ranks, Duration deadline) {
    for (int rank = 0; rank < 2; rank++) {
      sending.add(new End(ranks.devices.get(rank)));
      receiving.add(new End(ranks.devices.get(1 - rank)));
    }
    for (int rank = 0; rank < 2; rank++) {
      Connection[] send = new Connection[2];
      Connection[] recv = new Connection[2];
      send[1 - rank] = sending.get(rank).connection;
      recv[1 - rank] = receiving.get(1 - rank).connection;
      KernelCommunicatorSpec spec =
          new KernelCommunicatorSpec(
              "exposed",
              rank,
              2,
              LAYOUT,
              Arrays.asList(send),
              Arrays.asList(recv),
              ranks.spec.ring(),
              ranks.spec.trees(),
              1,
              Progress.NONE,
              deadline);
      communicators.add(ranks.devices.get(rank).createKernelCommunicator(spec));
      for (int channel = 0; channel < CHANNELS; channel++) {
        Random random = new Random(SEED + 2L * channel + rank);
        carriers.add(new Carrier(sending.get(rank), receiving.get(rank), channel, random));
      }
    }
  }

  private void disconnect() {
    communicators.forEach(KernelCommunicator::close);
    sending.forEach(End::close);
    receiving.forEach(End::close);
  }

  private void carry() {
    while (!over) {
      carriers.forEach(Carrier::turn);
    }
  }

  @Test
  void buffersAndSlotsArriveAtAnyByte() throws Exception {
    System.out.println("seed " + SEED);
    Random random = new Random(SEED);
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE, LAYOUT)) {
      connect(ranks, DEADLINE);
      Thread thread = new Thread(this::carry, "carrier");
      thread.start();
      try {
        for (int round = 0; round < ROUNDS; round++) {
          exchange(ranks, random, round);
        }
      } finally {
        over = true;
        thread.join();
      }
      assertTrue(carriers.stream().allMatch(each -> each.exposed > 0), "exposed");
      assertTrue(carriers.stream().allMatch(each -> each.placed > 0), "placed");
      disconnect();
    }
  }

  private void exchange(GpuRanks ranks, Random random, int round) {
    List<DeviceMemory> from = new ArrayList<>();
    List<DeviceMemory> to = new ArrayList<>();
    List<RegisteredMemory> registered = new ArrayList<>();
    byte[][] data = new byte[2][ROOM];
    byte[][] expected = new byte[2][ROOM];
    List<List<P2pWork>> works = List.of(new ArrayList<>(), new ArrayList<>());
    for (int rank = 0; rank < 2; rank++) {
      random.nextBytes(data[rank]);
      from.add(ranks.devices.get(rank).allocate(ROOM));
      to.add(ranks.devices.get(rank).allocate(ROOM));
      from.get(rank).write(0, ByteBuffer.wrap(data[rank]));
      to.get(rank).fill((byte) round);
      Arrays.fill(expected[rank], (byte) round);
      for (DeviceMemory memory : List.of(from.get(rank), to.get(rank))) {
        if (random.nextInt(4) > 0) {
          registered.add(RegisteredMemory.of(memory));
        }
      }
    }
    for (int message = 0; message < MESSAGES; message++) {
      for (int rank = 0; rank < 2; rank++) {
        int bytes = random.nextInt(5) == 0 ? 1 + random.nextInt(1000) : 1 + random.nextInt(MOST);
        int source = message * (MOST + 64) + random.nextInt(64);
        int target = message * (MOST + 64) + random.nextInt(64);
        Protocol simple = Protocol.SIMPLE;
        works
            .get(rank)
            .add(new P2pWork(P2pWork.Kind.SEND, 1 - rank, from.get(rank), source, bytes, simple));
        works
            .get(1 - rank)
            .add(new P2pWork(P2pWork.Kind.RECV, rank, to.get(1 - rank), target, bytes, simple));
        System.arraycopy(data[rank], source, expected[1 - rank], target, bytes);
      }
    }
    for (int rank = 0; rank < 2; rank++) {
      KernelCommunicator communicator = communicators.get(rank);
      communicator.launch(
          communicator.prepare(works.get(rank)), null, null, ranks.streams.get(rank));
    }
    for (int rank = 0; rank < 2; rank++) {
      ranks.streams.get(rank).synchronize();
      assertNull(communicators.get(rank).failure());
      ByteBuffer found = ByteBuffer.allocate(ROOM);
      to.get(rank).read(0, found);
      assertEquals(-1, Arrays.mismatch(expected[rank], found.array()), "rank " + rank);
    }
    registered.forEach(RegisteredMemory::close);
    from.forEach(DeviceMemory::close);
    to.forEach(DeviceMemory::close);
  }

  @Test
  void aSilentNetworkIsATimeoutThatNamesTheRank() {
    Duration deadline = Duration.ofMillis(300);
    try (GpuRanks ranks = new GpuRanks(2, deadline, LAYOUT)) {
      connect(ranks, deadline);
      DeviceMemory buffer = ranks.devices.get(0).allocate(MOST);
      RegisteredMemory registration = RegisteredMemory.of(buffer);
      KernelCommunicator communicator = communicators.get(0);
      P2pWork work = new P2pWork(P2pWork.Kind.SEND, 1, buffer, 0, MOST, Protocol.SIMPLE);
      communicator.launch(communicator.prepare(List.of(work)), null, null, ranks.streams.get(0));
      TimeoutException e =
          assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
      assertTrue(e.problem().contains("for credit of rank 1"), e.problem());
      registration.close();
      disconnect();
      buffer.close();
    }
  }
}
