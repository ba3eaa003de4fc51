package org.nccl4j.api.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;
import java.util.function.IntFunction;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * Windows of three ranks that one thread of each rank registers while another one makes NVLS: all
 * ranks agree on which windows are reached by multicast.
 */
@Timeout(600)
class WindowCoverTest {
  private static final int N = 3;
  private static final Duration LONG = Duration.ofSeconds(30);

  private final HostDevice device = HostDevice.instance();
  private final List<DeviceMemory> memories = new ArrayList<>();
  private final List<Rank> ranks = ranks();

  /** The windows of which the log says that they go without. */
  private final List<String> late = Collections.synchronizedList(new ArrayList<>());

  private final Logger log = Logger.getLogger("org.nccl4j.NVLS");
  private final Handler handler =
      new Handler() {
        @Override
        public void publish(LogRecord line) {
          String text = new SimpleFormatter().formatMessage(line);
          assertEquals(Level.INFO, line.getLevel());
          assertTrue(text.contains("register windows before the first large operation"), text);
          late.add(text.replaceAll("(.* has window \\d+) without NVLS, .*", "$1"));
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
      };

  /** A rank's multicast: made when its test says so, and covers when the test lets it. */
  private static final class Rank implements WindowMulticast {
    private final Exchange making;
    private final AtomicInteger closed = new AtomicInteger();
    private final CountDownLatch listed = new CountDownLatch(1);
    private volatile CountDownLatch mayCover = new CountDownLatch(0);
    private volatile CountDownLatch mayEnd = new CountDownLatch(0);
    private final List<String> steps = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean made;
    private WindowRegistry registry;

    Rank(Exchange making) {
      this.making = making;
    }

    @Override
    public boolean isMade() {
      return made;
    }

    @Override
    public Multicast.Cover cover(ShareableMemory own, List<DeviceMemory> views) {
      return covered(views);
    }

    @Override
    public Multicast.Cover cover(ShareableMemory own, List<DeviceMemory> views, Exchange exchange) {
      await(mayCover);
      return covered(views);
    }

    private Multicast.Cover covered(List<DeviceMemory> views) {
      return new Multicast.Cover() {
        @Override
        public Optional<MulticastMemory> memory() {
          return Optional.of(new MulticastMemory(/* emulated= */ true, views));
        }

        @Override
        public String reason() {
          return "covered";
        }

        @Override
        public void close() {
          closed.incrementAndGet();
        }
      };
    }

    /** Makes this rank's part of NVLS, on a thread of its own. */
    CompletableFuture<Void> make() {
      return run(
          "making",
          () -> {
            registry.cover(
                new Exchange() {
                  @Override
                  public List<byte[]> allGather(byte[] mine) {
                    listed.countDown();
                    return making.allGather(mine);
                  }

                  @Override
                  public long endNanos() {
                    return making.endNanos();
                  }
                });
            made = true;
          });
    }

    /** A bootstrap whose exchanges the test sees, and whose mapping it may hold up. */
    Bootstrap watched(Bootstrap bootstrap) {
      return (Bootstrap)
          Proxy.newProxyInstance(
              Bootstrap.class.getClassLoader(),
              new Class<?>[] {Bootstrap.class},
              (proxy, method, args) -> {
                boolean step = method.getName().equals("allGather");
                String call = step ? call((byte[]) args[0]) : "";
                if (step) {
                  synchronized (steps) {
                    steps.add(call);
                    steps.notifyAll();
                  }
                }
                try {
                  Object result = method.invoke(bootstrap, args);
                  if (call.equals(RegistrationMessage.Step.MAPPED.label())) {
                    await(mayEnd);
                  }
                  return result;
                } catch (InvocationTargetException e) {
                  throw e.getCause();
                }
              });
    }

    private static String call(byte[] message) {
      return new String(message, 1, message[0], StandardCharsets.US_ASCII);
    }

    /** Waits until this rank has begun so many exchanges of a step. */
    void awaitStep(RegistrationMessage.Step step, int times) throws InterruptedException {
      synchronized (steps) {
        while (Collections.frequency(steps, step.label()) < times) {
          steps.wait();
        }
      }
    }
  }

  private List<Rank> ranks() {
    List<Bootstrap> bootstraps = LocalBootstrap.create(N, LONG);
    List<Bootstrap> makings = LocalBootstrap.create(N, LONG);
    List<PeerInfo> peers =
        IntStream.range(0, N)
            .mapToObj(r -> new PeerInfo(r, "h", "ns", "p", 0, Device.Kind.HOST, "host"))
            .toList();
    List<Rank> made = new ArrayList<>();
    for (int r = 0; r < N; r++) {
      Bootstrap making = makings.get(r);
      Rank rank =
          new Rank(
              new Exchange() {
                @Override
                public List<byte[]> allGather(byte[] mine) {
                  return making.allGather(mine);
                }

                @Override
                public long endNanos() {
                  return making.exchangeEnd();
                }
              });
      rank.registry =
          new WindowRegistry(
              new WindowSetup(
                  "c",
                  r,
                  peers,
                  device,
                  rank.watched(bootstraps.get(r)),
                  0,
                  RemotePeers.none("", ""),
                  rank,
                  System.Logger.Level.INFO),
              space -> {});
      made.add(rank);
    }
    return made;
  }

  @BeforeEach
  void listen() {
    log.addHandler(handler);
  }

  @AfterEach
  void close() {
    log.removeHandler(handler);
    ranks.forEach(rank -> rank.registry.close());
    memories.forEach(DeviceMemory::close);
  }

  private synchronized DeviceMemory alloc() {
    memories.add(device.memAlloc(8192));
    return memories.get(memories.size() - 1);
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static CompletableFuture<Void> run(String name, Runnable call) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                call.run();
                done.complete(null);
              } catch (RuntimeException | AssertionError e) {
                done.completeExceptionally(e);
              }
            },
            name);
    thread.setDaemon(true);
    thread.start();
    return done;
  }

  /** A call on each rank, each on a thread of its own. */
  private static void all(IntConsumer call) {
    IntStream.range(0, N)
        .mapToObj(rank -> run("rank " + rank, () -> call.accept(rank)))
        .toList()
        .forEach(CompletableFuture::join);
  }

  /** Registers a window on all ranks. */
  private List<RegisteredWindow> register(IntFunction<DeviceMemory> memory) {
    RegisteredWindow[] windows = new RegisteredWindow[N];
    all(rank -> windows[rank] = ranks.get(rank).registry.register(memory.apply(rank)));
    return List.of(windows);
  }

  /** Makes NVLS on all ranks. */
  private void make() {
    ranks.stream().map(Rank::make).toList().forEach(CompletableFuture::join);
  }

  private static void assertCovered(List<RegisteredWindow> windows) {
    windows.forEach(window -> assertNotNull(window.view().multicast()));
  }

  private static void assertBare(List<RegisteredWindow> windows) {
    windows.forEach(window -> assertNull(window.view().multicast()));
  }

  @Test
  void windowsOfBeforeAndOfAfterwardsAreCovered() {
    List<RegisteredWindow> before = register(rank -> alloc());
    assertBare(before);
    make();
    assertCovered(before);
    assertCovered(register(rank -> alloc()));
    assertEquals(List.of(), late);
  }

  /** A rank may have heard that all have made it before another one has. */
  @Test
  void aWindowIsCoveredOnlyIfAllRanksHaveMadeIt() {
    for (int early = 0; early < N; early++) {
      ranks.forEach(rank -> rank.made = false);
      ranks.get(early).made = true;
      List<RegisteredWindow> window = register(rank -> alloc());
      assertBare(window);
      ranks.forEach(rank -> rank.made = true);
      assertCovered(register(rank -> alloc()));
      assertBare(window);
    }
  }

  /** A second window in memory that one rank has covered, and another has not yet. */
  @Test
  void windowsInOneMemoryAreCoveredOnlyIfAllRanksHaveMadeIt() throws Exception {
    DeviceMemory[] memory = {alloc(), alloc(), alloc()};
    List<RegisteredWindow> first = register(rank -> memory[rank]);
    CountDownLatch mayCover = new CountDownLatch(1);
    ranks.get(1).mayCover = mayCover;
    List<CompletableFuture<Void>> makings = ranks.stream().map(Rank::make).toList();
    makings.get(0).join();
    makings.get(2).join();
    List<RegisteredWindow> second = register(rank -> memory[rank].slice(64, 64));
    mayCover.countDown();
    makings.get(1).join();
    assertCovered(first);
    assertBare(second);
    assertEquals(List.of("rank 0 of communicator c has window 2"), late);
    assertCovered(register(rank -> memory[rank].slice(64, 64)));
    assertEquals(1, late.size());
  }

  /** One rank has listed its windows before a second one came into their memory. */
  @Test
  void aWindowThatOneRankHasNotListedIsCoveredOnNone() throws Exception {
    DeviceMemory[] memory = {alloc(), alloc(), alloc()};
    List<RegisteredWindow> first = register(rank -> memory[rank]);
    CompletableFuture<Void> making = ranks.get(0).make();
    await(ranks.get(0).listed);
    List<RegisteredWindow> second = register(rank -> memory[rank].slice(64, 64));
    CompletableFuture.allOf(ranks.get(1).make(), ranks.get(2).make(), making).join();
    assertCovered(first);
    assertBare(second);
    assertEquals(List.of("rank 0 of communicator c has window 2"), late);
  }

  /** The same, where rank 0 has listed the second window and another rank has not. */
  @Test
  void aWindowThatAnotherRankHasNotListedIsToldOfOnce() throws Exception {
    CompletableFuture<Void> making = ranks.get(1).make();
    await(ranks.get(1).listed);
    List<RegisteredWindow> window = register(rank -> alloc());
    CompletableFuture.allOf(ranks.get(0).make(), ranks.get(2).make(), making).join();
    assertBare(window);
    assertEquals(List.of("rank 0 of communicator c has window 1"), late);
  }

  /** One rank has come out of a registration, and another one is still in its last step. */
  @Test
  void theMakingWaitsForRegistrationsThatARankHasEnded() throws Exception {
    register(rank -> alloc());
    CountDownLatch mayEnd = new CountDownLatch(1);
    ranks.get(1).mayEnd = mayEnd;
    RegisteredWindow[] windows = new RegisteredWindow[N];
    List<CompletableFuture<Void>> registrations =
        IntStream.range(0, N)
            .mapToObj(
                rank ->
                    run(
                        "rank " + rank,
                        () -> windows[rank] = ranks.get(rank).registry.register(alloc())))
            .toList();
    registrations.get(0).join();
    registrations.get(2).join();
    List<CompletableFuture<Void>> makings = ranks.stream().map(Rank::make).toList();
    await(ranks.get(0).listed);
    await(ranks.get(2).listed);
    mayEnd.countDown();
    makings.forEach(CompletableFuture::join);
    registrations.get(1).join();
    assertCovered(List.of(windows));
    assertEquals(List.of(), late);
  }

  /** A registration that other ranks come to only after an operation that makes NVLS. */
  @Test
  void theMakingDoesNotWaitForRegistrationsThatOtherRanksHaveNotBegun() throws Exception {
    List<RegisteredWindow> before = register(rank -> alloc());
    RegisteredWindow[] windows = new RegisteredWindow[N];
    CompletableFuture<Void> early =
        run("early", () -> windows[0] = ranks.get(0).registry.register(alloc()));
    ranks.get(0).awaitStep(RegistrationMessage.Step.REGISTER, 2);
    make();
    IntStream.range(1, N)
        .mapToObj(
            rank ->
                run(
                    "rank " + rank,
                    () -> windows[rank] = ranks.get(rank).registry.register(alloc())))
        .toList()
        .forEach(CompletableFuture::join);
    early.join();
    assertCovered(before);
    assertBare(List.of(windows));
    assertEquals(List.of("rank 0 of communicator c has window 2"), late);
  }

  /** Memory that one rank still covers stays mapped there, whoever drops its window. */
  @Test
  void aWindowIsDroppedOnceItsMemoryIsNotBeingCovered() throws Exception {
    for (boolean together : new boolean[] {true, false}) {
      Rank slow = ranks.get(1);
      CountDownLatch mayCover = new CountDownLatch(1);
      slow.mayCover = mayCover;
      List<RegisteredWindow> windows = register(rank -> alloc());
      List<CompletableFuture<Void>> makings = ranks.stream().map(Rank::make).toList();
      makings.get(0).join();
      makings.get(2).join();
      List<CompletableFuture<Void>> drops =
          IntStream.range(0, N)
              .mapToObj(rank -> run("rank " + rank, () -> drop(rank, windows, together)))
              .toList();
      drops.get(0).join();
      drops.get(2).join();
      assertThrows(
          java.util.concurrent.TimeoutException.class,
          () -> drops.get(1).get(100, TimeUnit.MILLISECONDS));
      assertEquals(0, slow.closed.get());
      mayCover.countDown();
      makings.get(1).join();
      drops.get(1).join();
      register(rank -> alloc());
      ranks.forEach(rank -> assertEquals(1, rank.closed.getAndSet(0)));
      ranks.forEach(rank -> rank.made = false);
    }
  }

  private void drop(int rank, List<RegisteredWindow> windows, boolean together) {
    WindowRegistry registry = ranks.get(rank).registry;
    if (together) {
      registry.deregister(windows.get(rank), used -> false);
    } else {
      registry.release(windows.get(rank), used -> false, /* again= */ false);
    }
  }
}
