package org.nccl4j.it.perf.rank;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.os.ProcFile;

@Timeout(600)
final class RankWorkerTest {
  private static final Path STATUS = Path.of("/proc/thread-self/status");

  /** Creates a communicator of one rank, and remembers the cores of the thread that creates it. */
  private static final class Entrance implements CommunicatorSource {
    final CountDownLatch joined = new CountDownLatch(1);
    List<Integer> creator;
    CompletableFuture<List<Integer>> started;

    @Override
    public Communicator join(RankSpec spec, String uniqueId, CommunicatorConfig config) {
      creator = cores();
      started =
          onThread(
              () -> {
                await(joined);
                return cores();
              });
      return Communicator.initAll(spec.devices(), config).get(0);
    }
  }

  private static List<Integer> cores() {
    return CoreBinding.numbers(ProcFile.field(STATUS, "Cpus_allowed_list").orElseThrow());
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(300, TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** On a thread of its own, which then ends, so that no other test runs on one core. */
  private static <T> CompletableFuture<T> onThread(Supplier<T> task) {
    return CompletableFuture.supplyAsync(task, each -> new Thread(each).start());
  }

  /** Joins; returns the cores of the rank's thread afterwards. */
  private static List<Integer> join(Entrance entrance, CoreBinding.Time binding) {
    return onThread(
            () -> {
              Command join = new Command.Join("test", Map.of(), List.of(), 60, binding);
              try (RankWorker worker = new RankWorker(RankSpec.host(0, 1, 8), entrance)) {
                Reply reply = worker.obey(join);
                assertEquals(
                    binding != CoreBinding.Time.NEVER,
                    assertInstanceOf(Reply.Joined.class, reply, reply.toString()).bound());
                entrance.joined.countDown();
                return cores();
              }
            })
        .join();
  }

  @Test
  void aRankOfThisMachineIsBoundBeforeItsCommunicatorIsCreated() {
    List<Integer> all = cores();
    Entrance entrance = new Entrance();
    List<Integer> bound = join(entrance, CoreBinding.Time.BEFORE_CREATION);
    assertEquals(all.subList(0, 1), bound);
    assertEquals(bound, entrance.creator);
    assertEquals(all, entrance.started.join(), "a thread that the creation started");
  }

  @Test
  void aRankOfAnotherMachineIsBoundAfterwards() {
    List<Integer> all = cores();
    Entrance entrance = new Entrance();
    assertEquals(all.subList(0, 1), join(entrance, CoreBinding.Time.AFTER_CREATION));
    assertEquals(all, entrance.creator);
    assertEquals(all, entrance.started.join());
  }

  @Test
  void aRankThatIsNotToBeBoundKeepsItsCores() {
    List<Integer> all = cores();
    Entrance entrance = new Entrance();
    assertEquals(all, join(entrance, CoreBinding.Time.NEVER));
    assertEquals(all, entrance.creator);
  }

  @Test
  void aRankThatCannotBeBoundStaysUnbound() {
    assumeTrue(CoreBinding.hasCores(RankSpec.host(0, 2, 8)), "this process has one core");
    LocalEntrance entrance = new LocalEntrance();
    CompletableFuture<Boolean> other = onThread(() -> isBound(entrance, 1, spec -> false));
    assertTrue(isBound(entrance, 0, CoreBinding::bind));
    assertFalse(other.join());
  }

  private static boolean isBound(LocalEntrance entrance, int rank, Predicate<RankSpec> binding) {
    return onThread(
            () -> {
              Map<String, String> settings = Map.of("NCCL_SOCKET_IFNAME", "lo");
              Command join =
                  new Command.Join(
                      "test", settings, List.of(), 60, CoreBinding.Time.BEFORE_CREATION);
              RankSpec spec = RankSpec.host(rank, 2, 8);
              try (RankWorker worker = new RankWorker(spec, entrance, binding)) {
                Reply reply = worker.obey(join);
                return assertInstanceOf(Reply.Joined.class, reply, reply.toString()).bound();
              }
            })
        .join();
  }

  @Test
  void boundThreadsOfOneProcessIntroduceThemselves() {
    RankSpec first = RankSpec.host(0, 2, 8);
    LocalEntrance entrance = new LocalEntrance();
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_SOCKET_IFNAME", "lo");
    CompletableFuture<Integer> other = onThread(() -> ranks(entrance, first.at(1, 1), config));
    assertEquals(2, ranks(entrance, first, config));
    assertEquals(2, other.join());
  }

  private static int ranks(LocalEntrance entrance, RankSpec spec, CommunicatorConfig config) {
    try (Communicator joined = entrance.joinBound(spec, "test", config)) {
      assertEquals(spec.rank(), joined.rank());
      return joined.nRanks();
    }
  }
}
