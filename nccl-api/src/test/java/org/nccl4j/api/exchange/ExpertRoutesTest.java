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
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.kernel.ExpertSizes;

/** Routes of random tables, along which a token's number travels instead of the token. */
class ExpertRoutesTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @Test
  void everyTokenTravelsOnceToAHostAndEveryOutputBack() {
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
      new Round(sizes, random).check();
    }
  }

  /** The ranks of a dispatch and its combine. */
  private static final class Round {
    private final ExpertSizes sizes;
    private final int n;
    private final int stride;
    private final IntBuffer tables;
    private final int[] hosts;
    private final List<ExpertRows> rows = new ArrayList<>();
    private final List<ExpertRoutes> routes = new ArrayList<>();
    private final String seed = "seed " + SEED;

    Round(ExpertSizes sizes, Random random) {
      this.sizes = sizes;
      n = sizes.nRanks();
      stride = ExpertTables.words(sizes);
      tables = IntBuffer.allocate(n * stride);
      for (int rank = 0; rank < n; rank++) {
        tables.put(rank * stride, random.nextInt(sizes.maxTokens() + 1));
        for (int entry = 1; entry < stride; entry++) {
          tables.put(rank * stride + entry, random.nextInt(sizes.experts() + 1) - 1);
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
      for (int rank = 0; rank < n; rank++) {
        rows.add(new ExpertRows(sizes, rank));
        rows.get(rank).find(tables);
        routes.add(new ExpertRoutes(sizes, rank, layout));
        routes.get(rank).find(tables, rows.get(rank));
      }
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
      int[][] outputs = new int[n][];
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
      for (int rank = 0; rank < n; rank++) {
        outputs[rank] = receive(rank, staging[rank]);
      }
      for (int rank = 0; rank < n; rank++) {
        for (int peer = 0; peer < n; peer++) {
          if (peer != rank) {
            carry(
                routes.get(rank).out(peer),
                routes.get(peer).back(rank),
                outputs[rank],
                outputs[peer]);
          }
        }
      }
      for (int rank = 0; rank < n; rank++) {
        returned(rank, outputs[rank]);
      }
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
    private int[] receive(int rank, int[] staging) {
      int received = rows.get(rank).allReceived();
      IntBuffer from = IntBuffer.allocate(received);
      IntBuffer targets = IntBuffer.allocate(received);
      routes.get(rank).listReceived(tables, rows.get(rank), from, targets);
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
      int[] outputs = new int[(int) ExpertOutputs.rows(tables, sizes)[rank]];
      int[] placed = new int[received];
      for (int row = 0; row < received; row++) {
        placed[row] = staging[from.get(row)];
        outputs[targets.get(row)] = experts.get(row) * 10_000 + placed[row];
      }
      assertArrayEquals(expected.stream().mapToInt(x -> x).toArray(), placed, seed);
      return outputs;
    }

    private void returned(int rank, int[] outputs) {
      IntBuffer places = IntBuffer.allocate(entries(rank));
      routes.get(rank).listReturned(tables, places);
      for (int entry = 0; entry < entries(rank); entry++) {
        int expert = tables.get(rank * stride + 1 + entry);
        assertEquals(
            expert < 0 ? -1 : expert * 10_000 + rank * 1000 + entry / sizes.topK(),
            places.get(entry) < 0 ? -1 : outputs[places.get(entry)],
            seed);
      }
    }
  }
}
