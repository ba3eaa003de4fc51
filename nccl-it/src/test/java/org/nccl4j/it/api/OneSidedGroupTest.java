package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;

/** Puts, signals and waits in groups: the end launches all of them, or none. */
@Timeout(600)
class OneSidedGroupTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private Ranks ranks;
  private Communicator putting;
  private Communicator waiting;
  private final List<DeviceMemory> memories = new ArrayList<>();
  private final List<Window> windows = new ArrayList<>();
  private DeviceMemory source;

  @BeforeEach
  void windowsOfTwoRanks() {
    ranks = new Ranks(2);
    putting = ranks.communicators.get(0);
    waiting = ranks.communicators.get(1);
    source = Ranks.floats(4, i -> 7);
    Group.run(
        () ->
            ranks.communicators.forEach(
                rank -> {
                  memories.add(Devices.host().memAlloc(4096));
                  windows.add(rank.registerWindow(memories.get(rank.rank())));
                }));
    memories.get(1).fill((byte) 0);
  }

  @AfterEach
  void close() {
    ranks.close();
    memories.forEach(DeviceMemory::close);
    source.close();
  }

  private DeviceStream stream(int rank) {
    return ranks.streams.get(rank);
  }

  private void put() {
    putting.putSignal(source, 4, DataType.FLOAT32, 1, windows.get(0), 0, stream(0));
  }

  private void await() {
    waiting.waitSignal(Map.of(0, 1), stream(1));
  }

  private float arrived() {
    ByteBuffer first = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder());
    memories.get(1).read(0, first);
    return first.getFloat(0);
  }

  private void assertNothingWasSent() {
    ranks.streams.forEach(stream -> stream.synchronize(PATIENCE));
    assertEquals(0, arrived());
    put();
    await();
    ranks.streams.forEach(stream -> stream.synchronize(PATIENCE));
    assertEquals(7, arrived());
  }

  @Test
  void theEndLaunchesThem() {
    Group.start();
    put();
    assertEquals(1, Group.operations());
    assertTrue(stream(0).isIdle());
    stream(0).synchronize(PATIENCE);
    assertEquals(0, arrived());
    Group.end();
    await();
    ranks.streams.forEach(stream -> stream.synchronize(PATIENCE));
    assertEquals(7, arrived());
  }

  /** The wait is called first, and collectives run after both. */
  @Test
  void oneThreadDrivesBothRanks() {
    try (DeviceMemory a = Ranks.floats(4, i -> 1);
        DeviceMemory b = Ranks.floats(4, i -> 2)) {
      Group.run(
          () -> {
            waiting.allReduce(b, b, 4, DataType.FLOAT32, RedOp.SUM, stream(1));
            await();
            putting.allReduce(a, a, 4, DataType.FLOAT32, RedOp.SUM, stream(0));
            put();
          });
      ranks.streams.forEach(stream -> stream.synchronize(PATIENCE));
      assertEquals(7, arrived());
      assertEquals(3, Ranks.floats(a)[3]);
    }
  }

  @Test
  void aWrongCallLeavesThemOut() {
    Group.start();
    put();
    putting.signal(1, stream(0));
    assertThrows(InvalidArgumentException.class, () -> putting.signal(2, stream(0)));
    assertThrows(InvalidArgumentException.class, Group::end);
    assertNothingWasSent();
  }

  @Test
  void aSimulationLeavesThemOut() {
    Group.start();
    put();
    assertEquals(Duration.ZERO, Group.simulateEnd());
    assertEquals(Duration.ZERO, Group.simulate(this::put));
    assertNothingWasSent();
  }

  @Test
  void aWindowThatIsDeregisteredBeforeTheEndLeavesOutAll() {
    try (DeviceMemory data = Ranks.floats(4, i -> 1)) {
      Group.start();
      put();
      putting.send(data, 4, DataType.FLOAT32, 1, stream(0));
      putting.deregisterWindow(windows.get(0));
      assertThrows(InvalidUsageException.class, Group::end);
      assertTrue(stream(0).isIdle());
    }
  }

  /** The thread may have no other group for a long time. */
  @Test
  void aCallThatFailsDoesNotKeepItsSource() {
    WeakReference<DeviceMemory> source = putIntoClosedStream();
    Collected.await(source);
  }

  private WeakReference<DeviceMemory> putIntoClosedStream() {
    DeviceMemory data = Ranks.floats(4, i -> 7);
    DeviceStream closed = Devices.host().createStream();
    closed.close();
    Group.start();
    assertThrows(
        InvalidUsageException.class,
        () -> putting.putSignal(data, 4, DataType.FLOAT32, 1, windows.get(0), 0, closed));
    assertThrows(InvalidUsageException.class, Group::end);
    return new WeakReference<>(data);
  }

  /** It is freed after the put. */
  @Test
  void theSourceMayBeClosedBeforeTheEnd() {
    DeviceMemory once = Ranks.floats(4, i -> 9);
    Group.start();
    putting.putSignal(once, 4, DataType.FLOAT32, 1, windows.get(0), 0, stream(0));
    once.close();
    Group.end();
    await();
    ranks.streams.forEach(stream -> stream.synchronize(PATIENCE));
    assertEquals(9, arrived());
  }
}
