package org.nccl4j.transport.net.proxy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.transport.net.NetEnd;
import org.nccl4j.transport.net.ib.GpuMemory;
import org.nccl4j.transport.net.memory.ProxyChannel;

/**
 * A kernel is told of a step only once what was received is flushed; the test plays the network.
 */
class GdrFlushTest {
  private static final int PART = 256;

  private final ByteBuffer data = words();
  private final ByteBuffer credit = words();
  private final List<Pending> receives = new ArrayList<>();
  private final List<Pending> flushes = new ArrayList<>();
  private final List<String> told = new ArrayList<>();
  private boolean broken;

  private static ByteBuffer words() {
    return ByteBuffer.allocateDirect(1024).order(ByteOrder.nativeOrder());
  }

  /** A request that ends when the test says so. */
  private static final class Pending implements NetRequest {
    private final long offset;
    private final int bytes;
    private boolean ended;

    Pending(long offset, int bytes) {
      this.offset = offset;
      this.bytes = bytes;
    }

    @Override
    public boolean test(int[] sizes) {
      if (ended && sizes != null) {
        sizes[0] = bytes;
      }
      return ended;
    }
  }

  private record Known(DeviceMemory memory) implements NetMemory {
    @Override
    public void close() {}
  }

  private final class Network implements NetReceiver {
    @Override
    public NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
      Pending receive = new Pending(offsets[0], (int) (offsets[0] % 100));
      receives.add(receive);
      return receive;
    }

    @Override
    public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
      if (broken) {
        throw new RemoteException(ErrorId.CONNECTION, "the card is gone", "look for it");
      }
      if (bytes[0] == 0) {
        return null;
      }
      Pending flush = new Pending(offsets[0], bytes[0]);
      flushes.add(flush);
      return flush;
    }

    @Override
    public NetMemory register(DeviceMemory memory) {
      return new Known(memory);
    }

    @Override
    public NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
      return new Known(memory);
    }

    @Override
    public void close() {}
  }

  private RecvProxy proxy(boolean inGpu) {
    DeviceMemory host = HostDevice.instance().allocate(ConnectionLayout.STEPS * PART);
    NetMemory[] memories = new NetMemory[ConnectionLayout.STEPS];
    Arrays.fill(memories, new Known(inGpu ? new GpuMemory(host) : host));
    long[] offsets = new long[ConnectionLayout.STEPS];
    for (int slot = 0; slot < offsets.length; slot++) {
      offsets[slot] = (long) slot * PART;
    }
    ProxyChannel channel =
        new ProxyChannel(0, data, credit, memories, offsets, PART, /* mostPadded= */ 0);
    EndpointNames ranks = new EndpointNames(0, 1);
    Optional<Consumer<Profiler.ProxyStep>> profiler =
        Optional.of(step -> told.add(step.state() + " " + step.number() + " of " + step.bytes()));
    StepEvents events =
        new StepEvents(
            ranks, NetEnd.OPERATIONS, false, channel, profiler, TransportContext.StepTimes.NONE);
    return new RecvProxy(new Network(), channel, ranks, true, events);
  }

  private long tail() {
    return data.getLong((int) ConnectionLayout.TAIL);
  }

  @Test
  void theKernelIsToldAfterTheFlushAndInOrder() {
    RecvProxy proxy = proxy(true);
    proxy.doWork();
    assertEquals(ConnectionLayout.STEPS, receives.size());
    receives.get(0).ended = true; // of no bytes: needs no flush
    receives.get(1).ended = true;
    receives.get(2).ended = true;
    proxy.doWork();
    assertEquals(1, tail());
    assertEquals(2, flushes.size());
    assertEquals(PART, flushes.get(0).offset);
    assertEquals(PART % 100, flushes.get(0).bytes);
    flushes.get(1).ended = true;
    proxy.doWork();
    assertEquals(1, tail(), "an earlier step is not visible yet");
    List<String> come =
        List.of("RECEIVED 0 of 0", "RECEIVED 1 of 56", "RECEIVED 2 of 12", "DONE 0 of 0");
    assertEquals(come, told.subList(ConnectionLayout.STEPS, told.size()));
    flushes.get(0).ended = true;
    proxy.doWork();
    assertEquals(3, tail());
    assertEquals(
        List.of("DONE 1 of 56", "DONE 2 of 12"), told.subList(told.size() - 2, told.size()));
    receives.get(3).ended = true;
    assertTrue(proxy.doWork() > 0);
    assertEquals(3, tail());
    flushes.get(2).ended = true;
    proxy.doWork();
    assertEquals(4, tail());
  }

  @Test
  void slotsAreUsedAgainAndAgain() {
    RecvProxy proxy = proxy(true);
    for (int step = 0; step < 5 * ConnectionLayout.STEPS; step++) {
      proxy.doWork();
      receives.get(step).ended = true;
      proxy.doWork();
      boolean flushed = receives.get(step).bytes == 0;
      assertEquals(flushed ? step + 1 : step, tail());
      flushes.forEach(flush -> flush.ended = true);
      proxy.doWork();
      assertEquals(step + 1, tail());
      credit.putLong((int) ConnectionLayout.HEAD, step + 1);
    }
  }

  @Test
  void slotsOfTheHostNeedNone() {
    RecvProxy proxy = proxy(false);
    proxy.doWork();
    receives.get(0).ended = true;
    receives.get(1).ended = true;
    proxy.doWork();
    assertEquals(2, tail());
    assertTrue(flushes.isEmpty());
  }

  @Test
  void aFlushThatFailsBreaksTheConnection() {
    RecvProxy proxy = proxy(true);
    proxy.doWork();
    broken = true;
    receives.get(0).ended = true;
    receives.get(1).ended = true;
    proxy.doWork();
    long end = System.nanoTime() + 300_000_000_000L;
    NcclException lost =
        assertThrows(
            NcclException.class,
            () -> {
              while (System.nanoTime() - end < 0) {
                proxy.doWork();
                Thread.onSpinWait();
              }
            });
    assertTrue(lost.getMessage().contains("the card is gone"), lost.getMessage());
    assertFalse(tail() > 1, "nothing that was not flushed is told");
  }
}
