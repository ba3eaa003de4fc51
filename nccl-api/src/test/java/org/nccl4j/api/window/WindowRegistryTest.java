package org.nccl4j.api.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.IntConsumer;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;

/** Windows of three ranks of this process, without kernels and transports. */
@Timeout(600)
class WindowRegistryTest {
  private static final int N = 3;

  private final HostDevice device = HostDevice.instance();
  private final List<DeviceMemory> memories = new ArrayList<>();
  private List<WindowRegistry> ranks = registries(Duration.ofSeconds(30), 0);

  private List<WindowRegistry> registries(Duration deadline, long stride) {
    List<Bootstrap> bootstraps = LocalBootstrap.create(N, deadline);
    return IntStream.range(0, N)
        .mapToObj(rank -> registry(rank, bootstraps.get(rank), stride, "p".repeat(N)))
        .toList();
  }

  /** With a letter for each rank: those with the same are in one process. */
  private WindowRegistry registry(int rank, Bootstrap bootstrap, long stride, String processes) {
    List<PeerInfo> peers =
        IntStream.range(0, N)
            .mapToObj(
                r ->
                    new PeerInfo(
                        r, "h", "ns", processes.substring(r, r + 1), 0, Device.Kind.HOST, "host"))
            .toList();
    return new WindowRegistry(
        new WindowSetup(
            "c", rank, peers, device, bootstrap, stride, RemotePeers.none("", ""), null, null),
        space -> {});
  }

  /** Said by rank 0 at the first window, and not again. */
  @Test
  void teamsThatAreSmallAreToldOnce() {
    List<Bootstrap> bootstraps = LocalBootstrap.create(N, Duration.ofSeconds(30));
    List<PeerInfo> peers =
        IntStream.range(0, N)
            .mapToObj(
                r -> new PeerInfo(r, r < 2 ? "a" : "b", "ns", "p", 0, Device.Kind.HOST, "host"))
            .toList();
    List<String> lines = Collections.synchronizedList(new ArrayList<>());
    Logger log = Logger.getLogger("org.nccl4j.INIT");
    Handler handler = recorder(lines);
    log.addHandler(handler);
    try {
      all(
          rank -> {
            WindowSetup setup =
                new WindowSetup(
                    "c",
                    rank,
                    peers,
                    device,
                    bootstraps.get(rank),
                    0,
                    RemotePeers.none("", ""),
                    null,
                    System.Logger.Level.INFO);
            try (WindowRegistry registry = new WindowRegistry(setup, space -> {})) {
              registry.register(alloc(4096));
              registry.register(alloc(4096));
            }
          });
    } finally {
      log.removeHandler(handler);
    }
    lines.removeIf(line -> !line.startsWith("windows of communicator c have teams of 1"));
    assertEquals(1, lines.size(), lines::toString);
  }

  private static Handler recorder(List<String> lines) {
    return new Handler() {
      @Override
      public void publish(LogRecord line) {
        lines.add(new SimpleFormatter().formatMessage(line));
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
  }

  /** A bootstrap whose rank does something before it swaps memory with other processes. */
  private static Bootstrap beforeSwap(Bootstrap of, Runnable action) {
    return (Bootstrap)
        Proxy.newProxyInstance(
            Bootstrap.class.getClassLoader(),
            new Class<?>[] {Bootstrap.class},
            (proxy, method, args) -> {
              if (method.getName().equals("exchangeEnd")) {
                action.run();
              }
              try {
                return method.invoke(of, args);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  /** Rank 1 fails when the others wait for its memory, or are about to. */
  @Test
  void aFailureEndsTheWaitForMemoryOfAnotherProcess() {
    Duration deadline = Duration.ofSeconds(30);
    List<Bootstrap> bootstraps = LocalBootstrap.create(N, deadline);
    CountDownLatch swapping = new CountDownLatch(N - 1);
    Runnable failing =
        () -> {
          assertTrue(Patience.until(() -> swapping.getCount() == 0, deadline));
          bootstraps
              .get(1)
              .tellFailure(
                  new InvalidUsageException(ErrorId.ABORTED, "rank 1 has failed", "ask it why"));
          bootstraps.get(1).checkFailure();
        };
    all(
        rank -> {
          Runnable action = rank == 1 ? failing : swapping::countDown;
          Bootstrap own = beforeSwap(bootstraps.get(rank), action);
          WindowRegistry registry = registry(rank, own, 0, "abc");
          NcclException e = assertThrows(NcclException.class, () -> registry.register(alloc(4096)));
          assertTrue(e.getMessage().contains("rank 1 has failed"), e.getMessage());
          registry.close();
        });
  }

  @AfterEach
  void close() {
    ranks.forEach(WindowRegistry::close);
    memories.forEach(DeviceMemory::close);
  }

  private synchronized DeviceMemory alloc(long bytes) {
    memories.add(device.memAlloc(bytes));
    return memories.get(memories.size() - 1);
  }

  /** A registry of one rank with other ranks whose puts end, or do not. */
  private WindowRegistry alone(boolean ends, List<String> calls) {
    RemotePeers none = RemotePeers.none("", "");
    RemotePeers remote =
        (RemotePeers)
            Proxy.newProxyInstance(
                RemotePeers.class.getClassLoader(),
                new Class<?>[] {RemotePeers.class},
                (proxy, method, args) -> {
                  if (method.getName().equals("end")) {
                    calls.add("end");
                    return ends;
                  }
                  return method.invoke(none, args);
                });
    PeerInfo self = new PeerInfo(0, "h", "ns", "p", 0, Device.Kind.HOST, "host");
    Bootstrap bootstrap = LocalBootstrap.create(1, Duration.ofSeconds(30)).get(0);
    return new WindowRegistry(
        new WindowSetup("c", 0, List.of(self), device, bootstrap, 0, remote, null, null),
        space -> {});
  }

  @Test
  void discardedWindowsAreUnmappedOnceNoOtherRankWrites() {
    for (boolean ends : new boolean[] {true, false}) {
      List<String> calls = new ArrayList<>();
      WindowRegistry registry = alone(ends, calls);
      registry.register(alloc(64));
      registry.discard();
      assertEquals(1, calls.size());
      assertEquals(ends, registry.isUnused());
      assertEquals(!ends, KeptMemory.has(registry));
      registry.close();
    }
  }

  /** A call on each rank, each on a thread of its own. */
  private static void all(IntConsumer call) {
    List<CompletableFuture<Void>> calls = new ArrayList<>();
    for (int rank = 0; rank < N; rank++) {
      int mine = rank;
      CompletableFuture<Void> done = new CompletableFuture<>();
      calls.add(done);
      new Thread(
              () -> {
                try {
                  call.accept(mine);
                  done.complete(null);
                } catch (RuntimeException | AssertionError e) {
                  done.completeExceptionally(e);
                }
              },
              "rank " + rank)
          .start();
    }
    calls.forEach(CompletableFuture::join);
  }

  private interface Memory {
    DeviceMemory of(int rank);
  }

  /** Every rank is told the same, and registers and drops a window afterwards. */
  private void refused(String message, Memory memory) {
    all(
        rank -> {
          WindowRegistry registry = ranks.get(rank);
          NcclException e =
              assertThrows(NcclException.class, () -> registry.register(memory.of(rank)));
          assertTrue(e.getMessage().contains(message), e.getMessage());
          assertTrue(registry.isUnused());
          registry.deregister(registry.register(alloc(64)), window -> false);
        });
  }

  @Test
  void aWindowIsFoundUntilItIsDropped() {
    all(
        rank -> {
          WindowRegistry registry = ranks.get(rank);
          DeviceMemory memory = alloc(8192);
          assertFalse(registry.hasSpace());
          RegisteredWindow window = registry.register(memory.slice(64, 4096));
          assertTrue(registry.hasSpace() && registry.has(window));
          assertEquals(N, window.view().peers().size());
          assertSame(window, registry.find(memory.address() + 64, 4096));
          assertSame(window, registry.find(memory.address() + 100, 8));
          assertNull(registry.find(memory.address(), 8));
          assertNull(registry.find(memory.address() + 100, 4096));
          registry.deregister(window, used -> false);
          assertNull(registry.find(memory.address() + 100, 8));
          assertTrue(registry.isUnused());
        });
  }

  @Test
  void memoryThatDoesNotFitIsRefusedByAll() {
    DeviceMemory closed = device.memAlloc(64);
    closed.close();
    refused("on rank 1 of communicator c", rank -> rank == 1 ? device.allocate(4096) : alloc(4096));
    refused("cannot be mapped by other ranks", rank -> device.allocate(64));
    refused(
        "rank 0 registers a window of 4096 bytes and rank 2 one of 4100",
        rank -> alloc(8192).slice(0, rank == 2 ? 4100 : 4096));
    refused(
        "rank 0 registers a window at byte 0 of its allocation and rank 1 at byte 8",
        rank -> alloc(8192).slice(rank == 1 ? 8 : 0, 4096));
    refused(
        "on rank 2 of communicator c: the memory is closed",
        rank -> rank == 2 ? closed : alloc(64));
    refused("memory is null", rank -> null);
    refused("registerWindow on rank 1 of communicator", rank -> rank == 1 ? null : alloc(64));
    refused("0 bytes", rank -> alloc(0));
    refused(
        "ends 1000 bytes after its allocation", rank -> device.wrap(alloc(4096).address(), 5096));
  }

  @Test
  void aWindowIsDroppedOnceAndNotWhileItIsUsed() {
    all(
        rank -> {
          WindowRegistry registry = ranks.get(rank);
          RegisteredWindow window = registry.register(alloc(64));
          NcclException inUse =
              assertThrows(
                  NcclException.class, () -> registry.deregister(window, used -> rank == 1));
          assertTrue(inUse.getMessage().contains("while operations of rank 1 use it"));
          assertTrue(registry.has(window));
          registry.deregister(window, used -> false);
          NcclException twice =
              assertThrows(NcclException.class, () -> registry.deregister(window, used -> false));
          assertTrue(twice.problem().endsWith(" twice"), twice.problem());
        });
  }

  @Test
  void ranksInDifferentStepsAreNamed() {
    all(
        rank -> {
          WindowRegistry registry = ranks.get(rank);
          RegisteredWindow window = registry.register(alloc(64));
          DeviceMemory other = alloc(64);
          NcclException e =
              assertThrows(
                  NcclException.class,
                  () -> {
                    if (rank == 0) {
                      registry.register(other);
                    } else {
                      registry.deregister(window, used -> false);
                    }
                  });
          assertTrue(
              e.getMessage().contains("rank 0 calls registerWindow and rank 1 calls deregister"),
              e.getMessage());
          registry.deregister(window, used -> false);
        });
  }

  @Test
  void theRangeOfAddressesIsUsedAgain() {
    ranks = registries(Duration.ofSeconds(30), 1 << 20);
    all(
        rank -> {
          WindowRegistry registry = ranks.get(rank);
          DeviceMemory second = alloc(700_000);
          RegisteredWindow window = registry.register(alloc(700_000));
          NcclException e = assertThrows(NcclException.class, () -> registry.register(second));
          assertTrue(e.getMessage().contains("NCCL_WIN_STRIDE"), e.getMessage());
          registry.deregister(window, used -> false);
          registry.deregister(registry.register(second), used -> false);
        });
  }

  /** The shared memory of some allocations: mappings of other memory may end at any time. */
  private static final class Mappings {
    private final Set<String> segments;

    Mappings(List<DeviceMemory> of) throws IOException {
      segments =
          lines().stream()
              .filter(line -> of.stream().anyMatch(memory -> holds(line, memory.address())))
              .map(Mappings::segment)
              .collect(Collectors.toSet());
      assertEquals(of.size(), segments.size(), "a segment each");
    }

    /** The process's mappings of it, the allocations' own among them. */
    long count() throws IOException {
      return lines().stream().filter(line -> segments.contains(segment(line))).count();
    }

    private static List<String> lines() throws IOException {
      try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
        return lines.filter(line -> line.contains("memfd:")).toList();
      }
    }

    private static boolean holds(String line, long address) {
      String[] range = line.split(" ")[0].split("-");
      return address >= Long.parseUnsignedLong(range[0], 16)
          && address < Long.parseUnsignedLong(range[1], 16);
    }

    /** Its device and inode. */
    private static String segment(String line) {
      String[] fields = line.split(" ");
      return fields[3] + " " + fields[4];
    }
  }

  private List<DeviceMemory> allocations() {
    return IntStream.range(0, N).mapToObj(rank -> alloc(1 << 16)).toList();
  }

  /** Each rank's mappings end with its call; no other rank has to come. */
  @Test
  void aReleasedWindowIsUnmappedAtOnce() throws IOException {
    List<RegisteredWindow> windows = new ArrayList<>(Collections.nCopies(N, null));
    List<DeviceMemory> own = allocations();
    Mappings mappings = new Mappings(own);
    assertEquals(N, mappings.count());
    all(rank -> windows.set(rank, ranks.get(rank).register(own.get(rank))));
    long mapped = mappings.count();
    assertTrue(mapped >= N + N * N, "%d mappings".formatted(mapped));
    for (int rank = 0; rank < N; rank++) {
      ranks.get(rank).release(windows.get(rank), used -> false, /* again= */ false);
      assertEquals(mapped - (rank + 1) * N, mappings.count());
    }
  }

  @Test
  void aReleasedWindowThatGraphsMayUseIsUnmappedByTheNext() throws IOException {
    List<RegisteredWindow> windows = new ArrayList<>(Collections.nCopies(N, null));
    List<DeviceMemory> own = allocations();
    List<DeviceMemory> others = allocations();
    Mappings first = new Mappings(own);
    Mappings next = new Mappings(others);
    all(rank -> windows.set(rank, ranks.get(rank).register(own.get(rank))));
    long mapped = first.count();
    all(rank -> ranks.get(rank).release(windows.get(rank), used -> false, /* again= */ true));
    assertEquals(mapped, first.count());
    all(rank -> ranks.get(rank).register(others.get(rank)));
    assertEquals(mapped, next.count());
    assertEquals(N, first.count(), "the allocations' own");
  }

  /** Ranks 0 and 1 have released it, and register it again; rank 2 still has it. */
  @Test
  void memoryThatSomeHaveReleasedIsMappedAnew() {
    List<RegisteredWindow> windows = new ArrayList<>(Collections.nCopies(N, null));
    List<DeviceMemory> own = allocations();
    for (int time = 0; time < 3; time++) {
      all(rank -> windows.set(rank, ranks.get(rank).register(own.get(rank))));
      List<RegisteredWindow> before = List.copyOf(windows);
      ranks.get(0).release(windows.get(0), used -> false, /* again= */ false);
      ranks.get(1).release(windows.get(1), used -> false, /* again= */ false);
      all(rank -> windows.set(rank, ranks.get(rank).register(own.get(rank))));
      for (int rank = 0; rank < N; rank++) {
        own.get(rank).write(8 * time, word(100 * time + rank));
        for (int at = 0; at < N; at++) {
          ByteBuffer read = ByteBuffer.allocate(8);
          windows.get(at).view().peers().get(rank).read(8 * time, read);
          assertEquals(100 * time + rank, read.getLong(0));
        }
      }
      ByteBuffer read = ByteBuffer.allocate(8);
      before.get(2).view().peers().get(1).read(8 * time, read);
      assertEquals(100 * time + 1, read.getLong(0), "rank 2 has both");
      ranks.get(2).release(before.get(2), used -> false, /* again= */ false);
      all(rank -> ranks.get(rank).deregister(windows.get(rank), used -> false));
    }
  }

  /** Two windows of one allocation: the first to go unmaps nothing. */
  @Test
  void memoryOfAnotherWindowStaysMapped() throws IOException {
    List<DeviceMemory> own = allocations();
    Mappings mappings = new Mappings(own);
    List<RegisteredWindow> first = new ArrayList<>(Collections.nCopies(N, null));
    List<RegisteredWindow> second = new ArrayList<>(Collections.nCopies(N, null));
    all(rank -> first.set(rank, ranks.get(rank).register(own.get(rank).slice(0, 4096))));
    all(rank -> second.set(rank, ranks.get(rank).register(own.get(rank).slice(4096, 4096))));
    long mapped = mappings.count();
    all(rank -> ranks.get(rank).release(first.get(rank), used -> false, /* again= */ false));
    assertEquals(mapped, mappings.count());
    all(rank -> ranks.get(rank).release(second.get(rank), used -> false, /* again= */ false));
    assertEquals(mapped - N * N, mappings.count());
  }

  private static ByteBuffer word(long value) {
    return ByteBuffer.allocate(8).putLong(0, value);
  }

  /** At the first operation on it, the ranks map what each has registered by itself. */
  @Test
  void registrationsAreMappedTogether() {
    all(
        rank -> {
          Registrations registrations = ranks.get(rank).registrations();
          DeviceMemory memory = alloc(4096);
          LocalRegistration made = registrations.add(memory.slice(64, 1024));
          assertTrue(registrations.arePending());
          assertEquals("no operation has used it", made.obstacle());
          registrations.map(List.of(new Registrations.Buffer(memory.slice(128, 512), 512)));
          assertEquals("", made.obstacle());
          assertFalse(registrations.arePending());
          assertTrue(ranks.get(rank).find(memory.address() + 128, 512) != null);
          registrations.remove(made, used -> false, /* again= */ false);
          assertNull(ranks.get(rank).find(memory.address() + 128, 512));
        });
  }

  @Test
  void onlyBuffersInRegisteredMemoryMayBePending() {
    all(
        rank -> {
          Registrations registrations = ranks.get(rank).registrations();
          DeviceMemory memory = alloc(1 << 16);
          Random random = new Random(7);
          List<LocalRegistration> some = new ArrayList<>();
          BitSet held = new BitSet();
          for (int n = 0; n < 10; n++) {
            int begin = random.nextInt(1000) * 64;
            int bytes = 64 * (1 + random.nextInt(20));
            some.add(registrations.add(memory.slice(begin, bytes)));
            held.set(begin, begin + bytes);
            for (int at = 0; at < 1 << 16; at += 32) {
              assertEquals(held.get(at), registrations.mayBePending(memory.slice(at, 4)), "" + at);
            }
          }
          some.forEach(each -> registrations.remove(each, used -> false, /* again= */ false));
          assertFalse(registrations.mayBePending(memory));
          assertFalse(registrations.mayBePending(null));
        });
  }

  @Test
  void aRegistrationThatOneRankCannotMapIsUsedAsUsual() {
    all(
        rank -> {
          Registrations registrations = ranks.get(rank).registrations();
          DeviceMemory memory = rank == 1 ? device.allocate(4096) : alloc(4096);
          LocalRegistration made = registrations.add(memory);
          registrations.map(List.of(new Registrations.Buffer(memory, 4096)));
          assertTrue(made.obstacle().contains("rank 1"), made.obstacle());
          assertFalse(registrations.arePending());
          assertNull(ranks.get(rank).find(memory.address(), 8));
        });
  }

  @Test
  void aRankThatRegistersAloneIsToldWhomItWaitedFor() {
    ranks = registries(Duration.ofMillis(200), 0);
    Registrations registrations = ranks.get(0).registrations();
    DeviceMemory memory = alloc(64);
    registrations.add(memory);
    TimeoutException e =
        assertThrows(
            TimeoutException.class,
            () -> registrations.map(List.of(new Registrations.Buffer(memory, 64))));
    assertTrue(e.problem().contains("the first operation on registered memory"), e.problem());
    assertTrue(e.problem().contains("[1, 2]"), e.problem());
    assertEquals(
        "register the buffers of an operation on all ranks or on none, and use them first in the"
            + " same operation on all ranks, or register windows",
        e.remedy());
  }

  @Test
  void afterTheCloseNothingIsRegistered() {
    WindowRegistry closed = ranks.get(0);
    closed.close();
    NcclException e = assertThrows(NcclException.class, () -> closed.register(alloc(64)));
    assertTrue(e.getMessage().contains("communicator c is closed on rank 0"), e.getMessage());
  }
}
