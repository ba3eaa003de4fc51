package org.nccl4j.api.exchange;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.kernel.ExpertSizes;

/** Routes of random tables, along which a token's number travels instead of the token. */
class ExpertRoutesTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @Test
  void everyTokenTravelsOnceToAHostAndItsOutputsBack() {
    Random random = new Random(SEED);
    for (int round = 0; round < 200; round++) {
      int n = 1 + random.nextInt(7);
      int local = 1 + random.nextInt(4);
      ExpertSizes sizes =
          new ExpertSizes(
              n,
              1 + random.nextInt(6),
              8,
              1 + random.nextInt(4),
              local * n,
              DataType.FLOAT32,
              false);
      new Round(sizes, random, round % 2 == 1).check();
    }
  }

  /** The ranks of a dispatch and its combine. */
  private static final class Round {
    private final boolean hostsAdd;
    private final ExpertSizes sizes;
    private final int n;
    private final int stride;
    private final IntBuffer tables;
    private final int[] hosts;
    private final List<ExpertRows> rows = new ArrayList<>();
    private final List<ExpertRoutes> routes = new ArrayList<>();
    private final List<ExpertReturns> returns = new ArrayList<>();
    private final String seed = "seed " + SEED;

    Round(ExpertSizes sizes, Random random, boolean hostsAdd) {
      this.hostsAdd = hostsAdd;
      this.sizes = sizes;
      n = sizes.nRanks();
      stride = ExpertTables.words(sizes, hostsAdd);
      tables = IntBuffer.allocate(n * stride);
      for (int rank = 0; rank < n; rank++) {
        tables.put(rank * stride, random.nextInt(sizes.maxTokens() + 1));
        for (int entry = 1; entry < stride; entry++) {
          tables.put(rank * stride + entry, random.nextInt(sizes.experts() + 1) - 1);
        }
        for (int entry = 0; entry < sizes.entries() && hostsAdd; entry++) {
          int at = ExpertTables.weightAt(sizes, rank * stride, entry);
          tables.put(at, Float.floatToRawIntBits(weight(rank, entry)));
        }
      }
      hosts = random.ints(n, 0, 3).toArray();
      List<List<Integer>> layout =
          IntStream.range(0, 3)
              .mapToObj(
                  host ->
                      IntStream.range(0, n).filter(rank -> hosts[rank] == host).boxed().toList())
              .filter(ranks -> !ranks.isEmpty())
              .toList();
      ExpertRelays relays = new ExpertRelays(layout);
      for (int rank = 0; rank < n; rank++) {
        rows.add(new ExpertRows(sizes, rank, hostsAdd));
        rows.get(rank).find(tables);
        routes.add(new ExpertRoutes(sizes, rank, relays, hostsAdd));
        routes.get(rank).find(tables);
        returns.add(new ExpertReturns(sizes, rank, relays, hostsAdd));
        returns.get(rank).find(tables);
      }
    }

    private static float weight(int rank, int entry) {
      return 1 + rank + entry / 16f;
    }

    private int entries(int rank) {
      return tables.get(rank * stride) * sizes.topK();
    }

    void check() {
      int[][] staging = new int[n][];
      for (int rank = 0; rank < n; rank++) {
        staging[rank] = new int[(int) routes.get(rank).mostStaged()];
        Arrays.fill(staging[rank], -1);
        pack(rank, staging[rank]);
      }
      for (int rank = 0; rank < n; rank++) {
        Set<Integer> abroad = new HashSet<>();
        for (int peer = 0; peer < n; peer++) {
          if (peer != rank) {
            ExpertRoutes.Rows sent = routes.get(rank).leaving(peer);
            carry(sent, routes.get(peer).arriving(rank), staging[rank], staging[peer]);
            for (int i = 0; i < sent.count() && hosts[peer] != hosts[rank]; i++) {
              int token = staging[rank][sent.first() + i];
              assertTrue(abroad.add(token * 10 + hosts[peer]), seed);
            }
          }
        }
      }
      for (int rank = 0; rank < n; rank++) {
        forward(rank, staging[rank]);
      }
      for (int rank = 0; rank < n; rank++) {
        for (int peer = 0; peer < n; peer++) {
          if (peer != rank) {
            ExpertRoutes.Rows sent = routes.get(rank).forwarded(peer);
            carry(sent, routes.get(peer).relayed(rank), staging[rank], staging[peer]);
            assertTrue(sent.count() == 0 || hosts[peer] == hosts[rank], seed);
          }
        }
      }
      double[][] outputs = new double[n][];
      for (int rank = 0; rank < n; rank++) {
        outputs[rank] = receive(rank, staging[rank]);
      }
      carryOutputs(outputs, ExpertReturns::out, ExpertReturns::back);
      carryOutputs(outputs, ExpertReturns::forRelay, ExpertReturns::added);
      for (int rank = 0; rank < n; rank++) {
        add(rank, outputs[rank]);
      }
      carryOutputs(outputs, ExpertReturns::sums, ExpertReturns::sumsBack);
      for (int rank = 0; rank < n; rank++) {
        returned(rank, outputs[rank]);
      }
    }

    /** Each rank sends to each other; between hosts that add only sums, a token's once. */
    private void carryOutputs(
        double[][] outputs,
        BiFunction<ExpertReturns, Integer, ExpertRoutes.Rows> to,
        BiFunction<ExpertReturns, Integer, ExpertRoutes.Rows> from) {
      for (int rank = 0; rank < n; rank++) {
        for (int peer = 0; peer < n; peer++) {
          ExpertRoutes.Rows sent = to.apply(returns.get(rank), peer);
          if (peer != rank) {
            ExpertRoutes.Rows received = from.apply(returns.get(peer), rank);
            assertEquals(sent.count(), received.count(), seed);
            System.arraycopy(
                outputs[rank], sent.first(), outputs[peer], received.first(), sent.count());
            if (hostsAdd && hosts[peer] != hosts[rank]) {
              assertTrue(sent.count() <= tables.get(peer * stride), seed);
            }
          }
        }
      }
    }

    /** Adds as the kernels do. */
    private void add(int rank, double[] outputs) {
      ExpertRoutes.Rows sums = returns.get(rank).sums();
      assertTrue(sums.count() <= returns.get(rank).mostSums(), seed);
      IntBuffer places = IntBuffer.allocate(sums.count() * sizes.topK());
      IntBuffer weights = IntBuffer.allocate(sums.count() * sizes.topK());
      returns.get(rank).listSums(tables, places, weights);
      assertEquals(0, places.remaining(), seed);
      for (int i = 0; i < sums.count(); i++) {
        outputs[sums.first() + i] = sum(outputs, places, weights, i);
      }
    }

    private double sum(double[] outputs, IntBuffer places, IntBuffer weights, int token) {
      double sum = 0;
      for (int at = token * sizes.topK(); at < (token + 1) * sizes.topK(); at++) {
        if (places.get(at) >= 0) {
          sum += Float.intBitsToFloat(weights.get(at)) * outputs[places.get(at)];
        }
      }
      return sum;
    }

    /** Tokens are numbered by rank and token. */
    private void pack(int rank, int[] staging) {
      int packed = routes.get(rank).packed();
      IntBuffer tokens = IntBuffer.allocate(packed);
      IntBuffer targets = IntBuffer.allocate(packed);
      routes.get(rank).listPacked(tables, tokens, targets);
      assertEquals(0, tokens.remaining(), seed);
      for (int i = 0; i < packed; i++) {
        assertEquals(-1, staging[targets.get(i)], seed);
        staging[targets.get(i)] = rank * 1000 + tokens.get(i);
      }
      assertTrue(packed <= routes.get(rank).mostPacked(), seed);
    }

    private void forward(int rank, int[] staging) {
      int count = routes.get(rank).forwarded();
      IntBuffer from = IntBuffer.allocate(count);
      IntBuffer to = IntBuffer.allocate(count);
      routes.get(rank).listForwarded(tables, from, to);
      assertEquals(0, from.remaining(), seed);
      assertTrue(count <= routes.get(rank).mostForwarded(), seed);
      for (int i = 0; i < count; i++) {
        staging[to.get(i)] = staging[from.get(i)];
      }
    }

    private void carry(ExpertRoutes.Rows from, ExpertRoutes.Rows to, int[] source, int[] target) {
      assertEquals(from.count(), to.count(), seed);
      System.arraycopy(source, from.first(), target, to.first(), from.count());
    }

    /** Places the rows, and makes each output the number of its expert and token. */
    private double[] receive(int rank, int[] staging) {
      int received = rows.get(rank).allReceived();
      IntBuffer from = IntBuffer.allocate(received);
      IntBuffer targets = IntBuffer.allocate(received);
      routes.get(rank).listReceived(tables, rows.get(rank), from);
      returns.get(rank).listOutputs(tables, rows.get(rank), targets);
      List<Integer> expected = new ArrayList<>();
      List<Integer> experts = new ArrayList<>();
      for (int expert = rank * sizes.localExperts();
          expert < (rank + 1) * sizes.localExperts();
          expert++) {
        for (int source = 0; source < n; source++) {
          for (int entry = 0; entry < entries(source); entry++) {
            if (tables.get(source * stride + 1 + entry) == expert) {
              expected.add(source * 1000 + entry / sizes.topK());
              experts.add(expert);
            }
          }
        }
      }
      double[] outputs = new double[(int) returns.get(rank).rows(tables)[rank]];
      int[] placed = new int[received];
      for (int row = 0; row < received; row++) {
        placed[row] = staging[from.get(row)];
        outputs[targets.get(row)] = experts.get(row) * 10_000 + placed[row];
      }
      assertArrayEquals(expected.stream().mapToInt(x -> x).toArray(), placed, seed);
      return outputs;
    }

    private void returned(int rank, double[] outputs) {
      IntBuffer places = IntBuffer.allocate(entries(rank));
      IntBuffer weights = IntBuffer.allocate(entries(rank));
      float[] factors = new float[entries(rank)];
      for (int entry = 0; entry < factors.length; entry++) {
        factors[entry] = weight(rank, entry);
      }
      returns.get(rank).listReturned(tables, factors, places, weights);
      assertEquals(0, places.remaining(), seed);
      for (int token = 0; token < tables.get(rank * stride); token++) {
        double expected = 0;
        for (int k = 0; k < sizes.topK(); k++) {
          int entry = token * sizes.topK() + k;
          int expert = tables.get(rank * stride + 1 + entry);
          double output = expert * 10_000.0 + rank * 1000 + token;
          expected += expert < 0 ? 0 : weight(rank, entry) * output;
        }
        assertEquals(expected, sum(outputs, places, weights, token), seed);
      }
    }
  }
}
