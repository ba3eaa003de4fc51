package org.nccl4j.device.host.memory;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.support.ThreadLog;

@Timeout(600)
class HostMemoryTest {
  private static final HostDevice HOST = HostDevice.instance();

  private static void collectGarbage() {
    WeakReference<Object> garbage = new WeakReference<>(new Object());
    while (garbage.get() != null) { // until the timeout of the test
      System.gc();
    }
  }

  /** The error says the same, and there is no memory whose data would be copied twice. */
  @Test
  void anAllocationThatFailsIsNotLoggedAsOneThatIsNotShared() {
    List<String> lines = new ArrayList<>();
    Handler handler = new ThreadLog(lines);
    Logger logger = Logger.getLogger("org.nccl4j.ALLOC");
    Level before = logger.getLevel();
    logger.setLevel(Level.ALL);
    logger.addHandler(handler);
    try {
      assertThrows(SystemErrorException.class, () -> HOST.allocate(1L << 50));
    } finally {
      logger.removeHandler(handler);
      logger.setLevel(before);
    }
    assertEquals(List.of(), lines);
  }

  /** Memory is unmapped once its owner is unreachable, so a view has to keep that. */
  @Test
  void viewsKeepTheirMemory() {
    Object owner = new Object();
    WeakReference<Object> kept = new WeakReference<>(owner);
    ByteBuffer bytes = ByteBuffer.allocateDirect(64);
    ByteBuffer part = part(owner, bytes);
    owner = null;
    collectGarbage();
    assertNotNull(kept.get());
    part.put(0, (byte) 1);
    assertEquals(1, bytes.get(17));
    Reference.reachabilityFence(part);
    part = null;
    while (kept.get() != null) {
      System.gc();
    }
    assertNull(kept.get());
  }

  /** Other processes map it, however it comes. */
  @Test
  void wrappedPartsOfAnAllocationAreInItsSegment() {
    try (DeviceMemory memory = HOST.memAlloc(1 << 17)) {
      HostMemory whole = HostMemory.of(memory);
      HostMemory part = HostMemory.of(HOST.wrap(HostDevice.view(memory, 64, 1 << 16)));
      assertSame(whole.segment(), part.segment());
      assertEquals(64, part.segment().offset(part.address()));
      assertSame(whole.segment(), HostMemory.of(HOST.wrap(memory.address(), 8)).segment());
      assertNull(part.copied());
    }
  }

  @Test
  void memoryThatOthersCannotMapHasTheReason() {
    List<DeviceMemory> many = new ArrayList<>();
    try {
      assertReason("an allocation below 64 KiB", HOST.allocate(4096));
      assertReason("wrapped memory", HOST.wrap(ByteBuffer.allocateDirect(1 << 17)));
      DeviceMemory last;
      do { // more than 256 where what others have dropped is collected meanwhile
        last = HOST.allocate(1 << 16);
        many.add(last);
      } while (HostMemory.of(last).segment() != null && many.size() < 10_000);
      assertReason("256 allocations are shared already", last);
      assertNull(HostMemory.of(HOST.memAlloc(1 << 16)).copied());
    } finally {
      many.forEach(DeviceMemory::close);
    }
  }

  private static void assertReason(String begin, DeviceMemory memory) {
    HostMemory host = HostMemory.of(memory);
    assertNull(host.segment());
    assertTrue(host.copied().toString().startsWith(begin), host.copied().toString());
    assertSame(host.copied(), host.slice(0, 8).copied());
  }

  private static ByteBuffer part(Object owner, ByteBuffer bytes) {
    HostMemory memory =
        new HostMemory(
            HOST, HostMemory.addressOf(bytes), 64, () -> Reference.reachabilityFence(owner));
    return HostDevice.view(memory.slice(8, 32), 8, 16).slice(1, 8);
  }

  /** A view may begin and end in any of the windows, which begin every GiB. */
  @Test
  void viewsOfAnySizeBeginAnywhere() {
    long gib = 1L << 30;
    int most = Integer.MAX_VALUE - 8;
    try (DeviceMemory memory = HOST.allocate(3 * gib)) {
      ByteBuffer view = HostDevice.view(memory, gib - 8, most);
      assertEquals(most, view.capacity());
      view.put(0, (byte) 1);
      view.put(most - 1, (byte) 2);
      ByteBuffer read = ByteBuffer.allocate(1);
      memory.read(gib - 8, read);
      assertEquals(1, read.get(0));
      memory.read(gib - 8 + most - 1, read.clear());
      assertEquals(2, read.get(0));
      InvalidArgumentException e =
          assertThrows(InvalidArgumentException.class, () -> HostDevice.view(memory, 0, most + 1));
      assertTrue(e.getMessage().contains("in parts"), e.getMessage());
    }
  }

  @Test
  void readOnlyBuffersAreNotWrapped(@TempDir Path directory) throws IOException {
    Path file = directory.resolve("data");
    Files.write(file, new byte[64]);
    try (FileChannel channel = FileChannel.open(file)) {
      for (ByteBuffer each :
          new ByteBuffer[] {
            channel.map(MapMode.READ_ONLY, 0, 64), ByteBuffer.allocateDirect(64).asReadOnlyBuffer()
          }) {
        InvalidArgumentException e =
            assertThrows(InvalidArgumentException.class, () -> HOST.wrap(each));
        assertEquals(ErrorId.BUFFER, e.id());
        assertTrue(e.problem().contains("read-only buffer of 64 bytes"), e.problem());
      }
    }
  }

  /** Ranges whose begin is no memory or may not be read, and ranges of no addresses. */
  @Test
  void addressesWithoutMemoryAreNotWrapped() {
    try (DeviceMemory memory = HOST.allocate(100)) {
      long begin = memory.address();
      long[][] wrong = {{0, 1}, {8, 8}, {-4096, 8}, {begin, -1}, {begin, Long.MAX_VALUE}};
      for (long[] each : wrong) {
        InvalidArgumentException e =
            assertThrows(InvalidArgumentException.class, () -> HOST.wrap(each[0], each[1]));
        assertEquals(ErrorId.BUFFER, e.id());
        assertTrue(e.problem().contains("at address 0x"), e.problem());
      }
      assertEquals(0, HOST.wrap(0, 0).size());
      DeviceMemory same = HOST.wrap(begin + 99, 1);
      same.fill((byte) 7);
      same.close();
      ByteBuffer seen = ByteBuffer.allocate(1);
      memory.read(99, seen);
      assertEquals(7, seen.get(0));
    }
  }

  @Test
  void partsOutsideAreRefusedAsTheyWereAskedFor() {
    try (DeviceMemory memory = HOST.allocate(8)) {
      InvalidArgumentException e =
          assertThrows(InvalidArgumentException.class, () -> memory.slice(Long.MAX_VALUE, 1));
      assertEquals(
          "1 bytes from offset 9223372036854775807 on are not inside a memory of 8 bytes",
          e.problem());
    }
  }

  @Test
  void memoryIsNotReadIntoReadOnlyBuffers() {
    try (DeviceMemory memory = HOST.allocate(8)) {
      ByteBuffer target = ByteBuffer.allocate(8).asReadOnlyBuffer();
      assertThrows(InvalidArgumentException.class, () -> memory.read(0, target));
    }
  }

  /** In either direction, and with more than one block of the copy. */
  @Test
  void overlappingMemoryIsCopiedAsItWas() {
    int size = (3 << 20) + 5;
    byte[] data = new byte[2 * size];
    new Random(1).nextBytes(data);
    for (int[] at : new int[][] {{0, 7 << 10}, {7 << 10, 0}, {5, 5}, {0, (1 << 20) + 1}}) {
      try (DeviceMemory memory = HostDevice.instance().allocate(data.length);
          DeviceStream stream = HostDevice.instance().createStream()) {
        memory.write(0, ByteBuffer.wrap(data));
        stream.copy(memory.slice(at[0], size), memory.slice(at[1], size));
        stream.synchronize();
        byte[] got = new byte[size];
        memory.read(at[1], ByteBuffer.wrap(got));
        assertArrayEquals(Arrays.copyOfRange(data, at[0], at[0] + size), got);
      }
    }
  }
}
