package org.nccl4j.api.exchange;

import java.nio.IntBuffer;
import java.util.Arrays;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * The ways of a combine's outputs back to the ranks of their tokens, from the tables of all ranks
 * ({@link ExpertTables}).
 *
 * <p>Outputs travel straight. Where hosts add, those for a rank of another host go to that rank's
 * relay here ({@link ExpertRelays}), which adds those of a token and sends the sum.
 *
 * <p>The memory of outputs has, one behind the other: what comes back, by the rank that it comes
 * from; the sums of the tokens that this rank relays, by source; the outputs that it adds, by the
 * rank of their expert; the outputs for others, by source; the outputs for other relays, by relay.
 * The outputs of a section lie by source and entry, and sums by token. What stays on this rank is
 * put straight to where it is read.
 */
final class ExpertReturns {
  /** The place of an entry without an output of its own. */
  private static final int ABSENT = -1;

  private final ExpertSizes sizes;
  private final int n;
  private final int rank;
  private final int table;
  private final ExpertRelays relays;
  private final boolean hostsAdd;

  /** By rank the first row of what comes back, and behind them the row after the last. */
  private final int[] back;

  /** Likewise the sums of each source's tokens. */
  private final int[] sums;

  /** Likewise the outputs of each rank's experts that this rank adds. */
  private final int[] added;

  /** Likewise the outputs for each source. */
  private final int[] out;

  /** Likewise the outputs for each other relay. */
  private final int[] forRelay;

  /** The row of this rank's first output for each source. */
  private final int[] first;

  private final int[] next;
  private final int[] nextRow;

  /** By host the last token of which an output was seen. */
  private final int[] lastOfHost;

  /**
   * Returns of one exchange.
   *
   * @param hostsAdd true if the outputs of a host for a token of another are added there; then the
   *     tables have weights
   */
  ExpertReturns(ExpertSizes sizes, int rank, ExpertRelays relays, boolean hostsAdd) {
    this.sizes = sizes;
    this.n = sizes.nRanks();
    this.rank = rank;
    this.relays = relays;
    this.hostsAdd = hostsAdd;
    this.table = ExpertTables.words(sizes, hostsAdd);
    back = new int[n + 1];
    sums = new int[n + 1];
    added = new int[n + 1];
    out = new int[n + 1];
    forRelay = new int[n + 1];
    first = new int[n];
    next = new int[n];
    nextRow = new int[sizes.localExperts() * n];
    lastOfHost = new int[relays.hosts()];
  }

  /** True if a rank's outputs for another's tokens travel straight. */
  private boolean isStraight(int source, int target) {
    return !hostsAdd || relays.areNear(source, target);
  }

  private int tokens(IntBuffer tables, int source) {
    return tables.get(source * table);
  }

  /** The rank of an entry's expert, or -1. */
  private int target(IntBuffer tables, int source, int entry) {
    int expert = tables.get(source * table + 1 + entry);
    return expert < 0 ? -1 : expert / sizes.localExperts();
  }

  private float weight(IntBuffer tables, int source, int entry) {
    return Float.intBitsToFloat(tables.get(ExpertTables.weightAt(sizes, source * table, entry)));
  }

  /** True for the first entry of a token with an expert of a host. */
  private boolean isFirst(int host, int token) {
    boolean isFirst = lastOfHost[host] != token;
    lastOfHost[host] = token;
    return isFirst;
  }

  /** The most sums that this rank makes. */
  long mostSums() {
    long sources = 0;
    for (int source = 0; source < n; source++) {
      sources += adds(source) ? 1 : 0;
    }
    return sources * sizes.maxTokens();
  }

  /** True if this rank adds the outputs of its host for another's tokens. */
  private boolean adds(int source) {
    return !isStraight(source, rank) && relays.relay(source, relays.host(rank)) == rank;
  }

  /** Told of the entries of tables: tokens of a source, with an expert of a target each. */
  private interface Entries {
    void straight(int source, int target);

    /**
     * By a relay, which adds what the experts of a host return of a token.
     *
     * @param isFirst whether the token has no expert of the target's host before
     */
    void byRelay(int source, int target, int relay, boolean isFirst);
  }

  private void walk(IntBuffer tables, Entries entries) {
    for (int source = 0; source < n; source++) {
      Arrays.fill(lastOfHost, -1);
      int all = tokens(tables, source) * sizes.topK();
      for (int entry = 0; entry < all; entry++) {
        int target = target(tables, source, entry);
        if (target < 0) {
          continue;
        }
        if (isStraight(source, target)) {
          entries.straight(source, target);
          continue;
        }
        int host = relays.host(target);
        boolean isFirst = isFirst(host, entry / sizes.topK());
        entries.byRelay(source, target, relays.relay(source, host), isFirst);
      }
    }
  }

  /** Finds the ways, of which the lists are made. */
  void find(IntBuffer tables) {
    int[] backs = new int[n];
    int[] sumsOf = new int[n];
    int[] addedOf = new int[n];
    int[] outs = new int[n];
    int[] forRelays = new int[n];
    int[] ofSource = new int[n];
    walk(
        tables,
        new Entries() {
          @Override
          public void straight(int source, int target) {
            ofSource[source] += target == rank ? 1 : 0;
            backs[target] += source == rank ? 1 : 0;
            outs[source] += source != rank && target == rank ? 1 : 0;
          }

          @Override
          public void byRelay(int source, int target, int relay, boolean isFirst) {
            ofSource[source] += target == rank ? 1 : 0;
            backs[relay] += isFirst && source == rank ? 1 : 0;
            sumsOf[source] += isFirst && relay == rank ? 1 : 0;
            addedOf[target] += relay == rank ? 1 : 0;
            forRelays[relay] += relay != rank && target == rank ? 1 : 0;
          }
        });
    ExpertRoutes.sum(back, 0, backs);
    ExpertRoutes.sum(sums, back[n], sumsOf);
    ExpertRoutes.sum(added, sums[n], addedOf);
    ExpertRoutes.sum(out, added[n], outs);
    ExpertRoutes.sum(forRelay, out[n], forRelays);
    findFirst(ofSource);
  }

  private void findFirst(int[] ofSource) {
    System.arraycopy(forRelay, 0, next, 0, n);
    next[rank] = added[rank];
    for (int source = 0; source < n; source++) {
      if (isStraight(source, rank)) {
        first[source] = source == rank ? back[rank] : out[source];
      } else {
        int relay = relays.relay(source, relays.host(rank));
        first[source] = next[relay];
        next[relay] += ofSource[source];
      }
    }
  }

  /** Rows of outputs that each rank has with these tables. */
  long[] rows(IntBuffer tables) {
    long[] rows = new long[n];
    walk(
        tables,
        new Entries() {
          @Override
          public void straight(int source, int target) {
            rows[source]++;
            rows[target] += target == source ? 0 : 1;
          }

          @Override
          public void byRelay(int source, int target, int relay, boolean isFirst) {
            rows[relay] += isFirst ? 2 : 1;
            rows[target] += target == relay ? 0 : 1;
            rows[source] += isFirst ? 1 : 0;
          }
        });
    return rows;
  }

  private static ExpertRoutes.Rows section(int[] firsts, int of, boolean there) {
    return new ExpertRoutes.Rows(firsts[of], there ? firsts[of + 1] - firsts[of] : 0);
  }

  /** Rows of the outputs that another rank returns. */
  ExpertRoutes.Rows back(int from) {
    return section(back, from, isStraight(rank, from));
  }

  /** Rows of the sums that a relay returns. */
  ExpertRoutes.Rows sumsBack(int from) {
    return section(back, from, !isStraight(rank, from));
  }

  /** Rows of the outputs for another rank's tokens. */
  ExpertRoutes.Rows out(int to) {
    return section(out, to, true);
  }

  /** Rows of the outputs that another relay adds. */
  ExpertRoutes.Rows forRelay(int to) {
    return section(forRelay, to, true);
  }

  /** Rows of another rank's outputs that this rank adds. */
  ExpertRoutes.Rows added(int from) {
    return section(added, from, true);
  }

  /** Rows of the sums for a rank of another host. */
  ExpertRoutes.Rows sums(int to) {
    return section(sums, to, true);
  }

  /** Rows of all sums that this rank makes. */
  ExpertRoutes.Rows sums() {
    return new ExpertRoutes.Rows(sums[0], sums[n] - sums[0]);
  }

  /** Lists for each received row the row of its output. */
  void listOutputs(IntBuffer tables, ExpertRows rows, IntBuffer outputs) {
    int local = sizes.localExperts();
    rows.copyFirsts(nextRow);
    for (int source = 0; source < n; source++) {
      int output = first[source];
      int entries = tokens(tables, source) * sizes.topK();
      for (int entry = 0; entry < entries; entry++) {
        if (target(tables, source, entry) == rank) {
          int expert = tables.get(source * table + 1 + entry) - rank * local;
          outputs.put(nextRow[expert * n + source]++, output++);
        }
      }
    }
  }

  /**
   * Puts for each sum, by places among its token's experts, the rows that are added and weights.
   */
  void listSums(IntBuffer tables, IntBuffer places, IntBuffer weights) {
    System.arraycopy(added, 0, next, 0, n);
    for (int source = 0; source < n; source++) {
      for (int token = 0; token < tokens(tables, source) && adds(source); token++) {
        listSum(tables, source, token, places, weights);
      }
    }
  }

  private void listSum(
      IntBuffer tables, int source, int token, IntBuffer places, IntBuffer weights) {
    boolean any = false;
    for (int k = 0; k < sizes.topK(); k++) {
      int target = target(tables, source, token * sizes.topK() + k);
      any |= target >= 0 && relays.areNear(target, rank);
    }
    for (int k = 0; k < sizes.topK() && any; k++) {
      int entry = token * sizes.topK() + k;
      int target = target(tables, source, entry);
      boolean here = target >= 0 && relays.areNear(target, rank);
      places.put(here ? next[target]++ : ABSENT);
      weights.put(here ? Float.floatToRawIntBits(weight(tables, source, entry)) : 0);
    }
  }

  /** Puts for each own entry the row that is added for it, and the weight of that. */
  void listReturned(IntBuffer tables, float[] factors, IntBuffer places, IntBuffer weights) {
    System.arraycopy(back, 0, next, 0, n);
    Arrays.fill(lastOfHost, -1);
    int entries = tokens(tables, rank) * sizes.topK();
    for (int entry = 0; entry < entries; entry++) {
      int target = target(tables, rank, entry);
      int from = ABSENT;
      float weight = 1;
      if (target >= 0 && isStraight(rank, target)) {
        from = target;
        weight = factors[entry];
      } else if (target >= 0 && isFirst(relays.host(target), entry / sizes.topK())) {
        from = relays.relay(rank, relays.host(target));
      }
      places.put(from < 0 ? ABSENT : next[from]++);
      weights.put(Float.floatToRawIntBits(weight));
    }
  }
}
