package org.nccl4j.transport.net.proxy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.Connection.PlacedSteps;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.transport.net.memory.PlacedBuffers;

/** Receives that go to the buffers in which a kernel wants the data, one by one. */
class PlacedReceivesTest {
  private static final int SLOTS = 8;
  private static final int BYTES = 100;
  private static final int AT = 16;

  private final DeviceMemory buffer = HostDevice.instance().memAlloc(10_000);
  private final List<Long> wanted = new ArrayList<>();
  private final List<Long> placed = new ArrayList<>();
  private final List<DeviceMemory> known = new ArrayList<>();
  private final Request[] requests = new Request[SLOTS];
  private final List<Long> declined = new ArrayList<>();
  private boolean moves = true;
  private int bytes = BYTES;
  private boolean awaited;
  private boolean refuses;
  private boolean told;

  @AfterEach
  void close() {
    buffer.close();
  }

  private final PlacedSteps steps =
      new PlacedSteps() {
        @Override
        public long wanted() {
          return wanted.isEmpty() ? -1 : wanted.get(wanted.size() - 1);
        }

        @Override
        public boolean isWanted(long step) {
          return wanted.contains(step);
        }

        @Override
        public boolean areAwaited() {
          return awaited;
        }

        @Override
        public boolean isDeclined(long step) {
          return declined.contains(step);
        }

        @Override
        public DeviceMemory memory(long step) {
          return buffer;
        }

        @Override
        public long address(long step) {
          return buffer.address() + AT + step * BYTES;
        }

        @Override
        public int bytes(long step) {
          return bytes;
        }

        @Override
        public void placed(long step) {
          placed.add(step);
        }
      };

  /** A network that knows registered memory alone. */
  private final class Receiver implements NetReceiver {
    @Override
    public NetRequest irecv(int n, NetMemory[] into, long[] offsets, int[] bytes, int[] tags) {
      throw new AssertionError("of the proxy");
    }

    @Override
    public boolean redirects() {
      return moves;
    }

    @Override
    public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
      return null;
    }

    @Override
    public void tellPlaces() {
      told = true;
    }

    @Override
    public NetMemory register(DeviceMemory memory) {
      if (refuses) {
        throw new InvalidUsageException(ErrorId.USAGE, "too much locked memory", "lock less");
      }
      known.add(memory);
      return new NetMemory() {
        @Override
        public DeviceMemory memory() {
          return memory;
        }

        @Override
        public void close() {
          known.remove(memory);
        }
      };
    }

    @Override
    public NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
      throw new AssertionError("host memory");
    }

    @Override
    public void close() {}
  }

  /** A receive that was begun in its slot. */
  private static final class Request implements NetRequest {
    private long offset = -1;
    private boolean busy;
    private boolean late;
    private boolean stays;

    @Override
    public boolean test(int[] sizes) {
      return true;
    }

    @Override
    public boolean redirect(NetMemory memory, long to, int bytes) {
      assertEquals(BYTES, bytes);
      offset = busy ? -1 : to;
      return !busy;
    }

    @Override
    public boolean stay() {
      stays = !busy;
      return stays;
    }

    @Override
    public boolean isRedirected() {
      return offset >= 0 && !late;
    }
  }

  private PlacedReceives receives() {
    for (int slot = 0; slot < SLOTS; slot++) {
      requests[slot] = new Request();
    }
    return new PlacedReceives(new PlacedBuffers(steps, null), new Receiver(), SLOTS);
  }

  @Test
  void wantedStepsAreMovedOnceTheyHaveReceives() {
    PlacedReceives receives = receives();
    try (RegisteredMemory mine = RegisteredMemory.of(buffer)) {
      assertTrue(mine.isOpen());
      wanted.addAll(List.of(0L, 2L, 3L, 6L));
      assertFalse(receives.begins(0, 0), "it is moved instead");
      requests[2].busy = true;
      requests[3].late = true;
      receives.move(0, 4, requests);
      assertEquals(AT, requests[0].offset);
      assertEquals(-1, requests[1].offset);
      assertEquals(-1, requests[2].offset);
      assertEquals(AT + 3 * BYTES, requests[3].offset);
      requests[2].busy = false;
      receives.move(0, 7, requests);
      assertEquals(AT + 2 * BYTES, requests[2].offset, "tried again");
      assertEquals(AT + 6 * BYTES, requests[6].offset);
      for (int step = 0; step < 7; step++) {
        assertEquals(
            step == 0 || step == 2 || step == 6, receives.take(step, step, requests[step]));
        assertEquals(step < 6, receives.areInProgress(step + 1));
      }
      assertEquals(List.of(0L, 2L, 6L), placed);
    }
  }

  @Test
  void aSenderThatWaitsIsToldOfEachStepWhereItGoes() {
    awaited = true;
    PlacedReceives receives = receives();
    assertTrue(told);
    try (RegisteredMemory mine = RegisteredMemory.of(buffer)) {
      assertTrue(mine.isOpen());
      wanted.addAll(List.of(1L, 3L));
      declined.add(2L);
      requests[2].busy = true;
      receives.move(1, 4, requests);
      assertEquals(AT + BYTES, requests[1].offset);
      assertEquals(AT + 3 * BYTES, requests[3].offset);
      assertFalse(requests[0].stays || requests[1].stays || requests[2].stays);
      requests[2].busy = false;
      receives.move(1, 4, requests);
      assertTrue(requests[2].stays, "tried again");
    }
  }

  @Test
  void stepsWhoseMemoryTheNetworkRefusesStay() {
    awaited = true;
    refuses = true;
    PlacedReceives receives = receives();
    try (RegisteredMemory mine = RegisteredMemory.of(buffer)) {
      assertTrue(mine.isOpen());
      wanted.add(0L);
      receives.move(0, 1, requests);
      assertTrue(requests[0].stays);
      assertEquals(-1, requests[0].offset);
    }
  }

  @Test
  void receivesThatCannotBeMovedBeginInTheBuffer() {
    moves = false;
    PlacedReceives receives = receives();
    wanted.add(1L);
    assertFalse(receives.begins(1, 0), "not registered");
    try (RegisteredMemory mine = RegisteredMemory.of(buffer)) {
      assertTrue(mine.isOpen());
      assertFalse(receives.begins(0, 0), "not wanted");
      assertTrue(receives.begins(1, 0));
      assertFalse(receives.areInProgress(0), "not begun yet");
      receives.placed(1, 1);
      assertEquals(AT + BYTES, receives.offset());
      assertTrue(receives.areInProgress(1));
      receives.move(0, 2, requests);
      assertTrue(receives.take(1, 1, requests[1]));
      assertFalse(receives.areInProgress(2));
      assertEquals(List.of(1L), placed);
    }
  }

  /** Without notes a message may be a byte longer than such a step: it goes to the slot. */
  @Test
  void receivesOfStepsThatMayComePaddedBeginInTheirSlots() {
    moves = false;
    PlacedReceives receives = receives();
    wanted.add(1L);
    try (RegisteredMemory mine = RegisteredMemory.of(buffer)) {
      assertTrue(mine.isOpen());
      bytes = 17;
      assertFalse(receives.begins(1, 0));
      bytes = 18;
      assertTrue(receives.begins(1, 0));
    }
  }

  @Test
  void theNetworkForgetsMemoryOnceNoReceiveIsInIt() {
    PlacedReceives receives = receives();
    RegisteredMemory mine = RegisteredMemory.of(buffer);
    wanted.add(0L);
    receives.move(0, 1, requests);
    assertEquals(List.of(buffer), known);
    mine.close();
    receives.forget(0);
    assertEquals(List.of(buffer), known, "a receive is in it");
    receives.forgetEnded(1);
    assertEquals(List.of(), known);
    wanted.add(1L);
    receives.move(1, 2, requests);
    assertEquals(-1, requests[1].offset, "no longer registered");
    receives.close();
  }
}
