package org.nccl4j.api;

import java.nio.IntBuffer;
import java.util.Arrays;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * The routes of a dispatch whose tokens travel once to each rank, and of its combine, from the
 * tables of all ranks ({@link ExpertTables}).
 *
 * <p>The staging memory has the tokens that arrive, by source rank, and behind them those that are
 * sent, by target rank; own tokens are put straight among the arriving. The memory of outputs has
 * those that come back, by the rank of their expert and entry, and behind them those that are
 * returned, by source rank and entry; own outputs are put straight among the former.
 */
final class ExpertRoutes {
  /** The place of an entry without an output. */
  private static final int ABSENT = -1;

  private final ExpertSizes sizes;
  private final int rank;
  private final int table;

  /** The first staging row of each source rank's tokens; at the end that behind the last. */
  private final int[] arriving;

  /** The first staging row of the tokens for each rank; at the end that behind the last. */
  private final int[] leaving;

  /** The first row of the outputs that each rank's experts return. */
  private final int[] back;

  /** The first row of the outputs that each source rank gets. */
  private final int[] out;

  private final int[] next;
  private final int[] last;
  private final int[] nextRow;

  ExpertRoutes(ExpertSizes sizes, int rank) {
    this.sizes = sizes;
    this.rank = rank;
    this.table = Math.toIntExact(1 + sizes.entries());
    int n = sizes.nRanks();
    arriving = new int[n + 1];
    leaving = new int[n + 1];
    back = new int[n + 1];
    out = new int[n + 1];
    next = new int[n];
    last = new int[n];
    nextRow = new int[sizes.localExperts() * n];
  }

  /** Numbers of rows. */
  record Rows(int first, int count) {}

  /** Finds the routes, of which the lists are made. */
  void find(IntBuffer tables, ExpertRows rows) {
    int n = sizes.nRanks();
    int[] arrive = new int[n];
    int[] leave = new int[n];
    int[] outputs = new int[n];
    for (int source = 0; source < n; source++) {
      int tokens = tables.get(source * table);
      for (int token = 0; token < tokens; token++) {
        arrive[source] += isFor(tables, source, token, rank) ? 1 : 0;
      }
      for (int expert = 0; expert < rows.local(); expert++) {
        outputs[source] += rows.received(expert, source);
      }
    }
    int[] returned = new int[n];
    for (int expert = 0; expert < sizes.experts(); expert++) {
      returned[expert / rows.local()] += rows.sent(expert);
    }
    Arrays.fill(last, -1);
    for (int entry = 0; entry < tables.get(rank * table) * sizes.topK(); entry++) {
      int target = target(tables, rank, entry);
      if (target >= 0 && last[target] != entry / sizes.topK()) {
        last[target] = entry / sizes.topK();
        leave[target]++;
      }
    }
    outputs[rank] = 0;
    leave[rank] = 0;
    sum(arriving, 0, arrive);
    sum(leaving, arriving[n], leave);
    sum(back, 0, returned);
    sum(out, back[n], outputs);
  }

  private static void sum(int[] firsts, int first, int[] counts) {
    firsts[0] = first;
    for (int i = 0; i < counts.length; i++) {
      firsts[i + 1] = firsts[i] + counts[i];
    }
  }

  /** The rank of an entry's expert, or -1. */
  private int target(IntBuffer tables, int source, int entry) {
    int expert = tables.get(source * table + 1 + entry);
    return expert < 0 ? -1 : expert / sizes.localExperts();
  }

  private boolean isFor(IntBuffer tables, int source, int token, int target) {
    for (int k = 0; k < sizes.topK(); k++) {
      if (target(tables, source, token * sizes.topK() + k) == target) {
        return true;
      }
    }
    return false;
  }

  /** Staging rows of the tokens of another rank. */
  Rows arriving(int source) {
    return new Rows(arriving[source], arriving[source + 1] - arriving[source]);
  }

  /** Staging rows of the tokens for another rank. */
  Rows leaving(int target) {
    return new Rows(leaving[target], leaving[target + 1] - leaving[target]);
  }

  /** Rows of the outputs that another rank returns. */
  Rows back(int from) {
    return new Rows(back[from], back[from + 1] - back[from]);
  }

  /** Rows of the outputs for another rank. */
  Rows out(int to) {
    return new Rows(out[to], out[to + 1] - out[to]);
  }

  /** Own tokens that are packed: one for each rank that gets them. */
  int packed() {
    int n = sizes.nRanks();
    return leaving[n] - leaving[0] + arriving[rank + 1] - arriving[rank];
  }

  /** All rows of the memory of outputs. */
  int outputs() {
    return out[sizes.nRanks()];
  }

  /** Puts the packed tokens, each with its number and its staging row, in two lists. */
  void listPacked(IntBuffer tables, IntBuffer tokens, IntBuffer targets) {
    System.arraycopy(leaving, 0, next, 0, next.length);
    next[rank] = arriving[rank];
    Arrays.fill(last, -1);
    int entries = tables.get(rank * table) * sizes.topK();
    for (int entry = 0; entry < entries; entry++) {
      int target = target(tables, rank, entry);
      int token = entry / sizes.topK();
      if (target >= 0 && last[target] != token) {
        last[target] = token;
        tokens.put(token);
        targets.put(next[target]++);
      }
    }
  }

  /**
   * Lists for each received row the staging row that it is of, and its row in the memory of
   * outputs.
   */
  void listReceived(IntBuffer tables, ExpertRows rows, IntBuffer from, IntBuffer outputs) {
    int n = sizes.nRanks();
    int local = sizes.localExperts();
    for (int expert = 0; expert < local; expert++) {
      for (int source = 0; source < n; source++) {
        nextRow[expert * n + source] = rows.receivedFirst(expert, source);
      }
    }
    for (int source = 0; source < n; source++) {
      int tokens = tables.get(source * table);
      int staged = arriving[source];
      int output = source == rank ? back[rank] : out[source];
      for (int token = 0; token < tokens; token++) {
        boolean here = false;
        for (int k = 0; k < sizes.topK(); k++) {
          int expert = tables.get(source * table + 1 + token * sizes.topK() + k) - rank * local;
          if (expert >= 0 && expert < local) {
            int row = nextRow[expert * n + source]++;
            from.put(row, staged);
            outputs.put(row, output++);
            here = true;
          }
        }
        staged += here ? 1 : 0;
      }
    }
  }

  /** Puts for each own entry its row in the memory of outputs. */
  void listReturned(IntBuffer tables, IntBuffer places) {
    System.arraycopy(back, 0, next, 0, next.length);
    int entries = tables.get(rank * table) * sizes.topK();
    for (int entry = 0; entry < entries; entry++) {
      int target = target(tables, rank, entry);
      places.put(target < 0 ? ABSENT : next[target]++);
    }
  }
}
