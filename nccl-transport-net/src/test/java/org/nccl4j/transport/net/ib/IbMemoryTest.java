package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.device.RegistrationCache;

/** Memory is registered once while it is used, by address or by dma-buf; a GPU's is flushed. */
class IbMemoryTest extends WithRoce {
  private static final long PAGE = 4096;
  private static final Object OWNER = new Object();

  @Test
  void registrationsAreShared() {
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(1 << 20)) {
      int before = fake.fake_live();
      NetMemory whole = link.sender.register(memory);
      NetMemory part = link.sender.register(memory.slice(4096, 8192));
      NetMemory other = link.receiver.register(memory);
      assertEquals(before + 1, fake.fake_live(), "one registration for three");
      whole.close();
      whole.close();
      part.close();
      assertEquals(before + 1, fake.fake_live(), "still used by the third");
      other.close();
      assertEquals(before, fake.fake_live());
    }
  }

  /**
   * A connection may know memory for a while after it was freed. What is then allocated at its
   * addresses is not on the pages that the device has.
   */
  @Test
  void memoryAtTheAddressesOfFreedMemoryIsRegisteredAnew() {
    Object freed = new Object();
    Object other = new Object();
    try (IbLink first = new IbLink();
        IbLink second = new IbLink();
        DeviceMemory memory = IbLink.memory(1 << 20)) {
      int before = fake.fake_live();
      NetMemory known = first.sender.register(memory, freed);
      NetMemory shared = second.sender.register(memory, freed);
      assertEquals(before + 1, fake.fake_live(), "one registration for two connections");
      shared.close();
      NetMemory anew = second.sender.register(memory, other);
      NetMemory own = second.receiver.register(memory);
      assertEquals(before + 3, fake.fake_live(), "what the first has is not used");
      assertNotEquals(((IbMemory) known).remoteKey(0), ((IbMemory) anew).remoteKey(0));
      List.of(known, anew, own).forEach(NetMemory::close);
      assertEquals(before, fake.fake_live());
    }
  }

  /** The table of announcements is looked at word by word, so its order is kept. */
  @ParameterizedTest
  @CsvSource({"0, false", "1, true", "2, true"})
  void theOrderOfMessagesIsRelaxedAndThatOfAnnouncementsIsNot(String value, boolean relaxed) {
    try (IbLink link = new IbLink("NCCL_IB_PCI_RELAXED_ORDERING", value);
        DeviceMemory memory = IbLink.memory(1 << 20)) {
      assertEquals(0, FakeVerbs.calls(fake, "relaxed").size());
      link.receiver.register(memory);
      link.receiver.registerDmaBuf(memory, 17, 0);
      List<String> expected = relaxed ? List.of("relaxed bytes=" + (1 << 20)) : List.of();
      assertEquals(expected, FakeVerbs.calls(fake, "relaxed"));
      String access = relaxed ? "access=1048583" : "access=7";
      assertTrue(FakeVerbs.calls(fake, "dmabuf").get(1).endsWith(access));
      assertTrue(link.moves(1000));
    }
  }

  @Test
  void theCacheCountsUsersAndFindsEveryRegistrationThatHoldsARange() {
    try (OpenDevice open = OpenDevice.of(FakeVerbs.settings(), "roce0")) {
      RegistrationCache cache = open.cache();
      RegistrationCache.Region small = cache.register(OWNER, 100 * PAGE, 2 * PAGE);
      RegistrationCache.Region large = cache.register(OWNER, 90 * PAGE, 50 * PAGE);
      assertNotEquals(small.localKey(), large.localKey(), "the small one does not hold it");
      RegistrationCache.Region within = cache.register(OWNER, 110 * PAGE + 5, 10);
      assertEquals(large.localKey(), within.localKey(), "behind a smaller one that begins later");
      assertEquals(small.localKey(), cache.register(OWNER, 100 * PAGE, PAGE).localKey());
      assertEquals(2, cache.size());
      small.close();
      assertEquals(2, cache.size(), "one user is left");
      small.close();
      assertEquals(1, cache.size());
      large.close();
      assertEquals(large.localKey(), cache.register(OWNER, 95 * PAGE, 1).localKey());
      large.close();
      within.close();
      assertEquals(0, cache.size());
      RegistrationCache.Region again = cache.register(OWNER, 90 * PAGE, 50 * PAGE);
      assertNotEquals(large.remoteKey(), again.remoteKey(), "memory may be another by now");
      again.close();
    }
  }

  @Test
  void aLongerRegistrationAtTheSamePlaceLeavesTheShorterOneToItsUsers() {
    try (OpenDevice open = OpenDevice.of(FakeVerbs.settings(), "roce0")) {
      RegistrationCache cache = open.cache();
      int before = fake.fake_live();
      RegistrationCache.Region shorter = cache.register(OWNER, PAGE, PAGE);
      RegistrationCache.Region longer = cache.register(OWNER, PAGE, 3 * PAGE);
      assertEquals(before + 2, fake.fake_live());
      assertEquals(longer.localKey(), cache.register(OWNER, 2 * PAGE, PAGE).localKey());
      shorter.close();
      assertEquals(before + 1, fake.fake_live());
      longer.close();
      assertEquals(longer.localKey(), cache.register(OWNER, PAGE, 1).localKey(), "still cached");
      longer.close();
      longer.close();
      assertEquals(before, fake.fake_live());
    }
  }

  @Test
  void aRegistrationThatFailsLeavesTheCacheAsItWas() {
    try (OpenDevice open = OpenDevice.of(FakeVerbs.settings(), "roce0")) {
      RegistrationCache cache = open.cache();
      RegistrationCache.Region first = cache.register(OWNER, PAGE, PAGE);
      fake.fake_fail("ibv_reg_mr", 12, 0);
      assertThrows(SystemErrorException.class, () -> cache.register(OWNER, PAGE, 2 * PAGE));
      assertEquals(first.localKey(), cache.register(OWNER, PAGE, PAGE).localKey());
      first.close();
      first.close();
      assertEquals(0, cache.size());
    }
  }

  /** Deregistering takes long, and the thread that gives a buffer up serves other connections. */
  @Test
  void registrationsEndOnAnotherThread() {
    try (OpenDevice open = OpenDevice.of(FakeVerbs.settings(), "roce0")) {
      RegistrationCache cache = open.cache();
      int before = fake.fake_live();
      RegistrationCache.Region first = cache.register(OWNER, PAGE, PAGE);
      RegistrationCache.Region second = cache.register(OWNER, 3 * PAGE, PAGE);
      synchronized (cache) {
        first.closeSoon();
        second.closeSoon();
        assertEquals(before + 2, fake.fake_live(), "the other thread cannot begin");
        assertEquals(0, cache.size(), "no other user may get it");
      }
      IbLink.await(() -> fake.fake_live() == before);
      RegistrationCache.Region third = cache.register(OWNER, PAGE, PAGE);
      synchronized (cache) {
        third.closeSoon();
        fake.fake_fail("ibv_reg_mr", 12, 0);
        long calls = fake.fake_calls().lines().filter("ibv_reg_mr"::equals).count();
        assertThrows(SystemErrorException.class, () -> cache.register(OWNER, PAGE, 2 * PAGE));
        assertEquals(
            calls + 2,
            fake.fake_calls().lines().filter("ibv_reg_mr"::equals).count(),
            "tried again once the limit of locked memory has room");
        assertEquals(before, fake.fake_live());
        fake.fake_fail("", 0, 0);
      }
      cache.register(OWNER, PAGE, PAGE).closeSoon();
    }
  }

  /** The first gives up the cache's lock while it waits for room. */
  @Test
  void twoThreadsThatRegisterTheSameWhenThereIsNoRoomShareIt() throws Exception {
    try (OpenDevice open = OpenDevice.of(FakeVerbs.settings(), "roce0")) {
      RegistrationCache cache = open.cache();
      int before = fake.fake_live();
      for (int round = 0; round < 50; round++) {
        RegistrationCache.Region old = cache.register(new Object(), PAGE, PAGE);
        CompletableFuture<RegistrationCache.Region> second = new CompletableFuture<>();
        Thread other = new Thread(() -> second.complete(cache.register(OWNER, PAGE, PAGE)));
        RegistrationCache.Region first;
        synchronized (cache) {
          other.start();
          IbLink.await(() -> other.getState() == Thread.State.BLOCKED);
          old.closeSoon();
          fake.fake_fail_once("ibv_reg_mr", 12);
          first = cache.register(OWNER, PAGE, PAGE);
        }
        assertEquals(
            first.localKey(), second.get(IbLink.DEADLINE_NANOS, TimeUnit.NANOSECONDS).localKey());
        assertEquals(1, cache.size());
        first.close();
        second.get().close();
        assertEquals(before, fake.fake_live());
      }
    }
  }

  @Test
  void memoryThatIsClosedWhileItMovesIsReleasedOnceAtEachDevice() {
    FakeVerbs.addRoce(fake, "roce1", 5);
    try (OpenDevice first = OpenDevice.of(FakeVerbs.settings(), "roce0");
        OpenDevice second = OpenDevice.of(FakeVerbs.settings(), "roce1");
        DeviceMemory memory = IbLink.memory(8192)) {
      RegistrationCache.Region other = first.cache().register(OWNER, memory.address(), 8192);
      int before = fake.fake_live();
      for (int when = 0; when < 4; when++) {
        IbMemory moving = new IbMemory(memory, OWNER, null, null, List.of(first), false);
        if (when == 0) {
          moving.close();
        }
        moving.prepare(List.of(second), false);
        if (when == 1) {
          moving.close();
        }
        if (when < 3) {
          moving.move();
        } else {
          moving.close();
          moving.stay();
        }
        moving.close();
        assertEquals(1, first.cache().size(), "its other user has it");
        assertEquals(0, second.cache().size());
        assertEquals(before, fake.fake_live());
      }
      other.close();
      assertEquals(0, first.cache().size());
    }
  }

  @Test
  void randomRangesAreHeldByWhatTheyAreGivenWhoeverComesAndGoes() {
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    record Use(RegistrationCache.Region region, long start, long bytes) {}
    try (OpenDevice open = OpenDevice.of(FakeVerbs.settings(), "roce0")) {
      List<Use> uses = new ArrayList<>();
      for (int i = 0; i < 3000; i++) {
        if (uses.size() > 30 || !uses.isEmpty() && random.nextInt(3) == 0) {
          uses.remove(random.nextInt(uses.size())).region().close();
        } else {
          long start = PAGE + random.nextInt(1 << 18);
          long bytes = 1 + random.nextInt(1 << random.nextInt(18));
          uses.add(new Use(open.cache().register(OWNER, start, bytes), start, bytes));
        }
        for (Use use : uses) {
          assertTrue(use.region().holds(use.start(), use.bytes()), "seed " + seed + " step " + i);
        }
      }
      uses.forEach(use -> use.region().close());
      assertEquals(0, open.cache().size(), "seed " + seed);
    }
  }

  @Test
  void dmaBufsAreRegisteredByWhereTheyAre() {
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(8192)) {
      assertTrue(
          link.from.devices().get(0).pointers().toString().contains("DMA_BUF"),
          "the device takes dma-bufs");
      NetMemory registered = link.sender.registerDmaBuf(memory, 17, 4096);
      assertTrue(
          fake.fake_calls()
              .contains("dmabuf offset=4096 bytes=8192 iova=%d fd=17".formatted(memory.address())));
      NetMemory to = link.receiver.register(memory);
      NetRequest receive = link.receive(to, 0, 10, 1);
      NetRequest send = link.send(registered, 100, 10, 1);
      IbLink.await(() -> send.test(null));
      IbLink.await(() -> receive.test(null));
    }
  }

  @Test
  void aDmaBufIsRegisteredOnceWhateverItsDescriptor() {
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(8192);
        SharedSegment buffer = SharedSegment.create(16384);
        SharedSegment another = SharedSegment.create(16384);
        OwnedFd fd = new OwnedFd(buffer.duplicateFd());
        OwnedFd same = new OwnedFd(buffer.duplicateFd());
        OwnedFd other = new OwnedFd(another.duplicateFd())) {
      int before = fake.fake_live();
      NetMemory first = link.sender.registerDmaBuf(memory, fd.value(), 4096);
      NetMemory second = link.receiver.registerDmaBuf(memory, same.value(), 4096);
      assertEquals(before + 1, fake.fake_live());
      NetMemory third = link.sender.registerDmaBuf(memory, other.value(), 4096);
      NetMemory fourth = link.sender.registerDmaBuf(memory, fd.value(), 0);
      assertEquals(before + 3, fake.fake_live(), "another buffer, another part");
      first.close();
      assertEquals(before + 3, fake.fake_live(), "still used by the second");
      List.of(second, third, fourth).forEach(NetMemory::close);
      assertEquals(before, fake.fake_live());
    }
  }

  @Test
  void whatIsReceivedIntoAGpuIsFlushedByOneReadOfIt() {
    try (IbLink link = new IbLink();
        GpuMemory gpu = new GpuMemory(IbLink.memory(8192));
        DeviceMemory source = IbLink.pattern(1000, 2);
        DeviceMemory host = IbLink.memory(64)) {
      NetMemory in = link.receiver.registerDmaBuf(gpu, 17, 0);
      NetMemory out = link.sender.register(source);
      for (int round = 0; round < 100; round++) {
        NetRequest receive = link.receive(in, 100, 1000, 1);
        NetRequest send = link.send(out, 0, 1000, 1);
        IbLink.await(() -> receive.test(null));
        NetRequest flush =
            link.receiver.iflush(
                2,
                new NetMemory[] {in, link.receiver.register(host)},
                new long[] {100, 0},
                new int[] {1000, 64});
        assertNotNull(flush, "GPU memory is among what was received");
        IbLink.await(() -> flush.test(null));
        IbLink.await(() -> send.test(null));
      }
      assertEquals(
          100, fake.fake_calls().lines().filter(call -> call.startsWith("send op=4 ")).count());
      assertArrayEquals(IbLink.patternBytes(1000, 2), IbLink.read(gpu, 100, 1000));
    }
  }

  @Test
  void nothingIsFlushedWhereNothingCameToAGpu() {
    try (IbLink link = new IbLink();
        GpuMemory gpu = new GpuMemory(IbLink.memory(64));
        DeviceMemory host = IbLink.memory(64)) {
      NetMemory[] both = {link.receiver.register(host), link.receiver.register(gpu)};
      assertNull(link.receiver.iflush(2, both, new long[2], new int[] {64, 0}));
      assertNull(link.receiver.iflush(1, both, new long[2], new int[] {64}));
      assertEquals(0, FakeVerbs.calls(fake, "send op=4 ").size());
    }
  }
}
