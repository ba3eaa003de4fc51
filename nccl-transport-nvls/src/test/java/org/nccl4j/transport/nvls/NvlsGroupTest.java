package org.nccl4j.transport.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.api.multicast.MulticastProvider.Team;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.MulticastObject.Form;
import org.nccl4j.device.kernel.Nvls;

/** Ranks of this process make one multicast object, or none of them has one. */
@Timeout(600)
class NvlsGroupTest {
  private static final int N = 3;
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  private final byte[][] given = new byte[N][];
  private final CyclicBarrier barrier = new CyclicBarrier(N);

  /** Ranks that meet in memory. */
  private final class Meeting implements Exchange {
    private final int rank;

    Meeting(int rank) {
      this.rank = rank;
    }

    @Override
    public List<byte[]> allGather(byte[] mine) {
      try {
        given[rank] = mine;
        barrier.await(300, TimeUnit.SECONDS);
        List<byte[]> all = List.copyOf(Arrays.asList(given));
        barrier.await(300, TimeUnit.SECONDS);
        return all;
      } catch (InterruptedException | BrokenBarrierException | TimeoutException e) {
        throw new IllegalStateException(e);
      }
    }

    @Override
    public long endNanos() {
      return System.nanoTime() + PATIENCE_NANOS;
    }
  }

  /** A rank's facts; the last rank is another user's where that is said. */
  private record Facts(int rank, boolean stranger, Map<String, String> settings)
      implements TransportContext {
    @Override
    public List<PeerInfo> peers() {
      return IntStream.range(0, N)
          .mapToObj(
              r ->
                  new PeerInfo(
                      r, "h", "ns", "p", stranger && r == N - 1 ? 1 : 0, Device.Kind.HOST, "host"))
          .toList();
    }

    @Override
    public Device device() {
      return HostDevice.instance();
    }

    @Override
    public ConnectionLayout layout() {
      return new ConnectionLayout(1024, 1024, 4096);
    }

    @Override
    public List<NetProvider> nets() {
      return List.of();
    }

    @Override
    public byte[] secret() {
      return "sixteen bytes ok".getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public Optional<String> setting(String name) {
      return Optional.ofNullable(settings.get(name));
    }
  }

  /** A call on each rank, each on a thread of its own. */
  private static <T> List<T> all(IntFunction<T> call) {
    List<CompletableFuture<T>> calls = new ArrayList<>();
    for (int rank = 0; rank < N; rank++) {
      int mine = rank;
      CompletableFuture<T> made = new CompletableFuture<>();
      calls.add(made);
      new Thread(
              () -> {
                try {
                  made.complete(call.apply(mine));
                } catch (RuntimeException | AssertionError e) {
                  made.completeExceptionally(e);
                }
              },
              "rank " + rank)
          .start();
    }
    return calls.stream().map(CompletableFuture::join).toList();
  }

  private List<Multicast> open(IntFunction<TransportContext> contexts) {
    Team team = new Team(List.of(0, 1, 2), List.of(2, 0), 0, 32);
    return all(
        rank ->
            new NvlsProvider().open(contexts.apply(rank), team, Form.EMULATED, new Meeting(rank)));
  }

  @Test
  void eachRankSeesTheMemoryOfAll() {
    List<Multicast> made = open(rank -> new Facts(rank, false, Map.of()));
    for (int rank = 0; rank < N; rank++) {
      Nvls nvls = made.get(rank).nvls().orElseThrow();
      assertEquals(List.of(2, 0), nvls.heads());
      assertEquals(List.of(2, 0).indexOf(rank), nvls.headRank());
      assertTrue(made.get(rank).reason().startsWith("emulated, heads [2, 0], 1 channels"));
      nvls.unicast().write(0, ByteBuffer.wrap(new byte[] {(byte) (rank + 1)}));
    }
    for (Multicast each : made) {
      for (int member = 0; member < N; member++) {
        ByteBuffer first = ByteBuffer.allocate(1);
        each.nvls().orElseThrow().multicast().views().get(member).slice(0, 1).read(0, first);
        assertEquals(member + 1, first.get(0));
      }
    }
    made.forEach(Multicast::close);
  }

  private void refused(String reason, IntFunction<TransportContext> contexts) {
    for (Multicast each : open(contexts)) {
      assertEquals(Optional.empty(), each.nvls());
      assertTrue(each.reason().contains(reason), each.reason());
      each.close();
    }
  }

  @Test
  void settingsThatDifferRefuseAll() {
    refused(
        "rank 1 lays buffers out as",
        rank ->
            new Facts(rank, false, rank == 1 ? Map.of("NCCL_NVLS_CHUNKSIZE", "1024") : Map.of()));
  }

  @Test
  void aRankOfAnotherUserRefusesAll() {
    refused(
        "the emulation of multicast objects is not shared between hosts",
        rank -> new Facts(rank, true, Map.of()));
  }

  @Test
  void aStepThatARankCannotTakeIsRefusedByAllAlike() {
    List<String> said =
        all(
            rank -> {
              CollectiveSteps agreement = new CollectiveSteps(new Meeting(rank));
              try {
                List<String> answers = agreement.take("say its name", () -> "rank " + rank);
                assertEquals(List.of("rank 0", "rank 1", "rank 2"), answers);
                agreement.take(
                    "be the first",
                    () -> {
                      if (rank == 2) {
                        throw new InternalErrorException("it came last", "come earlier", null);
                      }
                      return "";
                    });
                return "all are the first";
              } catch (CollectiveSteps.Refused e) {
                return e.getMessage();
              }
            });
    assertEquals(
        List.of("rank 2 cannot be the first: it came last"), said.stream().distinct().toList());
  }
}
