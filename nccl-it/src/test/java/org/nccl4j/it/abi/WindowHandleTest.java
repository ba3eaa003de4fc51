package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.stream.IntStream;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/** Memory of the host's program that is registered, which ncclMemAlloc has not allocated. */
@Timeout(600)
class WindowHandleTest {
  private static final int BYTES = 4 << 20;
  private static final int PAGE = 4096;

  /** Ranks wait for each other, and the common pool has one thread on two cores. */
  private static final Executor THREADS = task -> new Thread(task).start();

  @TempDir private Path folder;

  private final ByteBuffer memory = ByteBuffer.allocateDirect(2 * BYTES);
  private final long address = Devices.wrap(memory).address();

  /** True if networks know a buffer of an operation. */
  private static boolean isRegistered(RankHandle rank, long address, long bytes) {
    return RegisteredMemory.find(rank.place().memory().of(address, bytes), address, bytes) != null;
  }

  /** The addresses may be known from calls before, or be registered twice. */
  @Test
  void buffersArePartsOfWhatIsRegistered() {
    UniqueId id = UniqueId.create();
    try (Communicator alone = Communicator.initRank(1, id, 0, Devices.host())) {
      RankHandle rank = RankHandle.warm(alone);
      assertFalse(isRegistered(rank, address + PAGE, PAGE));
      long whole = Entry.register(rank.handle(), address, 4 * PAGE, false, false);
      assertTrue(isRegistered(rank, address + PAGE, PAGE));
      assertFalse(isRegistered(rank, address + PAGE, 4 * PAGE), "a part of it is");
      long part = Entry.register(rank.handle(), address + PAGE, PAGE, false, false);
      assertEquals(Results.SUCCESS, Entry.deregister(rank.handle(), whole, false));
      assertTrue(isRegistered(rank, address + PAGE, PAGE));
      assertEquals(Results.SUCCESS, Entry.deregister(rank.handle(), part, false));
      assertFalse(isRegistered(rank, address + PAGE, PAGE));
      RankHandle.ALL.remove(rank.handle());
    }
  }

  /** Two ranks that say they are on different hosts. */
  private static List<RankHandle> apart() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(List.of("NET"))
            .with("NCCL_NET", "Socket")
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_P2P_DISABLE", "1");
    UniqueId id = UniqueId.create(config);
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      CommunicatorConfig own = config.with("NCCL_HOSTID", "host " + rank);
      joining.add(Communicator.initRankAsync(2, id, rank, Devices.host(), own));
    }
    return joining.stream().map(CompletableFuture::join).map(RankHandle::warm).toList();
  }

  private void broadcast(RankHandle rank, int number) {
    long own = address + number * (long) BYTES;
    long shape = CallShape.of(Operation.BROADCAST.ordinal(), DataType.UINT8.ordinal(), 0, 0);
    assertEquals(Results.SUCCESS, Entry.launch(rank.handle(), shape, own, own, BYTES, 0));
  }

  @Test
  void networksSendFromRegisteredMemory() throws Exception {
    List<RankHandle> ranks = apart();
    List<Long> registrations = new ArrayList<>();
    for (int r = 0; r < 2; r++) {
      registrations.add(
          Entry.register(ranks.get(r).handle(), address + r * (long) BYTES, BYTES, false, false));
    }
    memory.put(BYTES - 1, (byte) 7);
    Path file = folder.resolve("steps.jfr");
    try (Recording recording = new Recording()) {
      recording.enable("org.nccl4j.ProxyStep");
      recording.start();
      CompletableFuture.allOf(
              IntStream.range(0, 2)
                  .mapToObj(
                      r -> CompletableFuture.runAsync(() -> broadcast(ranks.get(r), r), THREADS))
                  .toArray(CompletableFuture<?>[]::new))
          .get();
      recording.stop();
      recording.dump(file);
    }
    assertEquals(7, memory.get(2 * BYTES - 1));
    long sent = 0;
    long direct = 0;
    for (RecordedEvent each : RecordingFile.readAllEvents(file)) {
      if (each.getEventType().getName().equals("org.nccl4j.ProxyStep")
          && each.getString("direction").equals("send")) {
        sent += each.getLong("bytes");
        direct += each.getBoolean("zeroCopy") ? each.getLong("bytes") : 0;
      }
    }
    assertTrue(
        direct > sent / 2, "%d of %d bytes were sent from the buffer".formatted(direct, sent));
    for (int r = 0; r < 2; r++) {
      RankHandle rank = ranks.get(r);
      assertEquals(Results.SUCCESS, Entry.deregister(rank.handle(), registrations.get(r), false));
    }
    CompletableFuture.allOf(
            ranks.stream()
                .map(
                    rank ->
                        CompletableFuture.runAsync(() -> rank.close(/* abort= */ false), THREADS))
                .toArray(CompletableFuture<?>[]::new))
        .get();
  }
}
