package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Registration;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** Memory that each rank registers by itself. */
@Timeout(600)
class RegistrationTest {
  private static final int COUNT = 1000;

  /** Ways that only memory in windows can take; the answer without them would be Ring's. */
  private static final CommunicatorConfig DIRECT =
      CommunicatorConfig.defaults().with("NCCL_ALGO", "DirectTwoShot,Ring");

  private static DeviceMemory alloc(long bytes) {
    return Devices.host().memAlloc(bytes);
  }

  private static void fill(DeviceMemory memory, float value) {
    ByteBuffer data =
        ByteBuffer.allocate((int) memory.size() / 4 * 4).order(ByteOrder.nativeOrder());
    while (data.hasRemaining()) {
      data.putFloat(value);
    }
    memory.write(0, data.flip());
  }

  /** All ranks add up their memory at an offset. */
  private static void sum(
      Communicator comm, DeviceStream stream, DeviceMemory from, DeviceMemory to) {
    fill(from, comm.rank() + 1);
    comm.allReduce(from, to, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
    stream.synchronize();
    float[] got = Ranks.floats(to.slice(0, 4L * COUNT));
    float[] expected = new float[COUNT];
    Arrays.fill(expected, comm.nRanks() * (comm.nRanks() + 1) / 2f);
    assertArrayEquals(expected, got);
  }

  @Test
  void operationsGoStraightBetweenRegisteredBuffers() throws Exception {
    try (Ranks ranks = new Ranks(3, DIRECT)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory from = alloc(8192);
                DeviceMemory to = alloc(8192)) {
              Registration send = comm.register(from);
              Registration recv = comm.register(to.slice(64, 8000));
              assertTrue(send.isRegistered() && !send.isMapped());
              assertEquals("no operation has used it", send.obstacle());
              sum(comm, stream, from.slice(16, 4096), to.slice(128, 4096));
              assertTrue(send.isMapped() && recv.isMapped(), send.obstacle() + recv.obstacle());
              assertEquals("", send.obstacle());
              assertEquals(8000, recv.memory().size());
              for (int again = 0; again < 5; again++) {
                sum(comm, stream, from.slice(32, 4096), to.slice(128, 4096));
              }
              comm.deregister(send);
              assertFalse(send.isRegistered() || send.isMapped());
              sum(comm, stream, from, to.slice(64, 4096)); // as without
              comm.deregister(recv);
            }
          });
    }
  }

  /** Every rank overwrites the others' memory by its own mapping: only where there is one. */
  @Test
  void mappedMemoryIsUsedInPlace() throws Exception {
    try (Ranks ranks = new Ranks(2, DIRECT)) {
      String before = ranks.communicators.get(0).memory().toString();
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory both = alloc(4L * COUNT)) {
              comm.register(both);
              sum(comm, stream, both, both);
            }
          });
      // The space of windows was made for it.
      assertFalse(before.contains("windows"), before);
      assertTrue(ranks.communicators.get(0).memory().containsKey("windows"));
    }
  }

  @Test
  void memoryThatCannotBeMappedIsUsedAsUsual() throws Exception {
    try (Ranks ranks = new Ranks(2, DIRECT)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory good = alloc(8192);
                DeviceMemory plain = Devices.host().allocate(8192)) {
              Registration first = comm.register(comm.rank() == 1 ? plain : good);
              sum(comm, stream, first.memory(), first.memory());
              assertTrue(first.isRegistered());
              assertFalse(first.isMapped());
              assertTrue(first.obstacle().contains("rank 1"), first.obstacle());
              assertTrue(first.obstacle().contains("cannot be mapped"), first.obstacle());
              sum(comm, stream, first.memory(), first.memory());
              comm.deregister(first);
              Registration other = comm.register(good.slice(0, comm.rank() == 1 ? 4096 : 8192));
              sum(comm, stream, other.memory(), other.memory());
              assertTrue(other.obstacle().contains("of 8192 bytes and rank 1"), other.obstacle());
            }
          });
    }
  }

  /** Buffers that only the root has are left out of it. */
  @Test
  void theRootsOwnBufferIsMappedByALaterOperation() throws Exception {
    try (Ranks ranks = new Ranks(3, DIRECT)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory from = alloc(4L * COUNT);
                DeviceMemory to = alloc(4L * COUNT)) {
              Registration send = comm.register(from);
              Registration recv = comm.register(to);
              fill(from, 2);
              DeviceMemory atRoot = comm.rank() == 1 ? to : null;
              comm.reduce(from, atRoot, COUNT, DataType.FLOAT32, RedOp.SUM, 1, stream);
              stream.synchronize();
              assertTrue(send.isMapped());
              assertFalse(recv.isMapped());
              if (comm.rank() == 1) {
                assertEquals(6f, Ranks.floats(to)[COUNT - 1]);
              }
              sum(comm, stream, from, to);
              assertTrue(recv.isMapped());
            }
          });
    }
  }

  @Test
  void oneThreadDrivesAllRanksInAGroup() {
    try (Ranks ranks = new Ranks(3, DIRECT)) {
      List<DeviceMemory> memories = new ArrayList<>();
      List<Registration> registrations = new ArrayList<>();
      for (Communicator comm : ranks.communicators) {
        DeviceMemory memory = alloc(4L * COUNT);
        fill(memory, comm.rank() + 1);
        memories.add(memory);
        registrations.add(comm.register(memory));
      }
      Group.run(
          () -> {
            for (Communicator comm : ranks.communicators) {
              DeviceMemory memory = memories.get(comm.rank());
              DeviceStream stream = ranks.streams.get(comm.rank());
              comm.allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
            }
          });
      ranks.streams.forEach(DeviceStream::synchronize);
      assertTrue(registrations.stream().allMatch(Registration::isMapped));
      memories.forEach(memory -> assertEquals(6f, Ranks.floats(memory)[COUNT - 1]));
      memories.forEach(DeviceMemory::close);
    }
  }

  /** Receives of one rank in a group come in the order of its calls. */
  @Test
  void severalWindowsOfARankInOneGroup() {
    try (Ranks ranks = new Ranks(2)) {
      for (int round = 0; round < 20; round++) {
        List<DeviceMemory> memories = new ArrayList<>();
        List<Window> windows = new ArrayList<>();
        Group.run(
            () -> {
              for (int w = 0; w < 6; w++) {
                memories.add(alloc(64));
                memories.get(w).fill((byte) w);
                windows.add(ranks.communicators.get(w % 2).registerWindow(memories.get(w)));
              }
            });
        for (int w = 0; w < 6; w++) {
          ByteBuffer one = ByteBuffer.allocate(1);
          windows.get(w).peer(1 - w % 2).read(0, one);
          assertEquals(w % 2 == 0 ? w + 1 : w - 1, one.get(0));
        }
        Group.run(
            () -> {
              for (int w = 0; w < 6; w++) {
                ranks.communicators.get(w % 2).deregisterWindowOnAllRanks(windows.get(w));
              }
            });
        memories.forEach(DeviceMemory::close);
      }
    }
  }

  @Test
  void whatAllHaveDeregisteredIsUnmapped() throws Exception {
    try (Ranks ranks = new Ranks(2, DIRECT)) {
      churn(ranks);
      long before = mappings();
      for (int round = 0; round < 20; round++) {
        churn(ranks);
      }
      assertTrue(mappings() <= before + 4, before + " mappings before, " + mappings() + " after");
    }
  }

  /** The memory is closed when no rank's stream has anything to do: it is unmapped at once then. */
  private static void churn(Ranks ranks) throws Exception {
    List<DeviceMemory> memories = Collections.synchronizedList(new ArrayList<>());
    ranks.run(
        (comm, stream) -> {
          DeviceMemory memory = alloc(4L * COUNT);
          memories.add(memory);
          Registration registration = comm.register(memory);
          sum(comm, stream, memory, memory);
          assertTrue(registration.isMapped(), registration.obstacle());
          comm.deregister(registration);
        });
    memories.forEach(DeviceMemory::close);
  }

  @Test
  void memoryThatIsClosedWhileItIsRegisteredIsNamed() throws Exception {
    try (Ranks ranks = new Ranks(2, DIRECT)) {
      ranks.run(
          (comm, stream) -> {
            DeviceMemory memory = alloc(4L * COUNT);
            comm.register(memory);
            sum(comm, stream, memory, memory);
            DeviceMemory same = Devices.host().wrap(memory.address(), 4L * COUNT);
            memory.close();
            refused(
                InvalidUsageException.class,
                "was closed while it was registered",
                () -> comm.allReduce(same, same, COUNT, DataType.FLOAT32, RedOp.SUM, stream));
          });
    }
  }

  private static long mappings() throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains("memfd:nccl4j")).count();
    }
  }

  @Test
  void betweenMachinesItIsOfNoUseAndDoesNoHarm() throws Exception {
    try (Ranks ranks = Ranks.onHosts("ab", CommunicatorConfig.defaults())) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = alloc(4L * COUNT)) {
              Registration registration = comm.register(memory);
              assertTrue(registration.obstacle().contains("several machines"));
              sum(comm, stream, memory, memory);
              assertFalse(registration.isMapped());
              comm.deregister(registration);
            }
          });
    }
  }

  @Test
  void wrongCallsAreNamed() {
    Ranks ranks = new Ranks(2);
    DeviceMemory closed = alloc(64);
    closed.close();
    try (DeviceMemory memory = alloc(64)) {
      Communicator comm = ranks.communicators.get(0);
      Communicator other = ranks.communicators.get(1);
      refused(InvalidArgumentException.class, "memory is null", () -> comm.register(null));
      refused(InvalidArgumentException.class, "has 0 bytes", () -> comm.register(alloc(0)));
      refused(
          InvalidArgumentException.class,
          "null was passed for the registration",
          () -> comm.deregister(null));
      refused(InvalidUsageException.class, "memory is closed", () -> comm.register(closed));
      Registration registration = comm.register(memory);
      refused(
          InvalidUsageException.class,
          "of another communicator, or twice",
          () -> other.deregister(registration));
      comm.deregister(registration);
      refused(
          InvalidUsageException.class,
          "of another communicator, or twice",
          () -> comm.deregister(registration));
      Registration left = comm.register(memory);
      ranks.close();
      assertFalse(left.isRegistered());
      refused(InvalidUsageException.class, "closed communicator", () -> comm.register(memory));
      refused(InvalidUsageException.class, "closed communicator", () -> comm.deregister(left));
    } finally {
      ranks.close();
    }
  }

  private static void refused(Class<? extends NcclException> type, String message, Runnable call) {
    NcclException e = assertThrows(type, call::run);
    assertTrue(e.getMessage().contains(message), e.getMessage());
    assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
  }

  /** Its mapping would go with the connections. */
  @Test
  void aCommunicatorWithRegisteredMemoryIsNotSuspended() throws Exception {
    try (Ranks ranks = new Ranks(2, DIRECT.withOperationTimeout(Duration.ofSeconds(30)))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = alloc(64)) {
              Registration registration = comm.register(memory);
              InvalidUsageException e = assertThrows(InvalidUsageException.class, comm::suspend);
              assertTrue(e.problem().contains("registered memory"), e.problem());
              comm.deregister(registration);
              comm.suspend();
              comm.resume();
            }
          });
    }
  }
}
