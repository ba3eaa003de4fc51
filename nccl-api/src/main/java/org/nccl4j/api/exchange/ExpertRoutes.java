package org.nccl4j.api.exchange;

import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * The routes of a dispatch whose tokens travel once to each host, from the tables of all ranks
 * ({@link ExpertTables}); {@link ExpertReturns} has those of its combine.
 *
 * <p>A rank sends a token straight to the ranks of its own host that get it. Of another host one
 * rank, its relay there ({@link ExpertRelays}), gets each token for that host once, and forwards it
 * to the others.
 *
 * <p>The staging memory has the tokens that arrive, in a section for each source rank. A relay's
 * section has those for its whole host. Behind them are the tokens for each rank, then those
 * forwarded to each rank; own tokens are put straight among the arriving.
 */
final class ExpertRoutes {
  private final ExpertSizes sizes;
  private final int n;
  private final int rank;
  private final int table;

  private final ExpertRelays relays;

  /** True for a rank that sends its tokens straight here. */
  private final boolean[] direct;

  /** The sources that each other rank of this host relays here, and those that this rank relays. */
  private final int[][] relayed;

  /** The first staging row of each source's section, and its tokens. */
  private final int[] section;

  private final int[] arrive;

  /** The first staging row of what each rank relays here. */
  private final int[] relayedFirst;

  /** The first staging row of the tokens for each rank; at the end that behind the last. */
  private final int[] leaving;

  /** The same for those that are forwarded. */
  private final int[] forwarded;

  private final int[] next;
  private final int[] nextRow;

  /** The last token that was found to be for each rank, and for each host. */
  private final int[] lastOfRank;

  private final int[] lastOfHost;

  /** The targets of the token that was looked at last: ranks, and how many. */
  private final int[] targets;

  private int nTargets;

  /**
   * Routes of one exchange.
   *
   * @param weighted true if the tables have weights
   */
  ExpertRoutes(ExpertSizes sizes, int rank, ExpertRelays relays, boolean weighted) {
    this.sizes = sizes;
    this.n = sizes.nRanks();
    this.rank = rank;
    this.relays = relays;
    this.table = ExpertTables.words(sizes, weighted);
    direct = new boolean[n];
    int[] via = new int[n];
    for (int source = 0; source < n; source++) {
      boolean near = relays.areNear(source, rank);
      via[source] = near ? source : relays.relay(source, relays.host(rank));
      direct[source] = near || via[source] == rank;
    }
    relayed = new int[n][];
    for (int peer = 0; peer < n; peer++) {
      int by = peer;
      relayed[peer] =
          IntStream.range(0, n)
              .filter(source -> !relays.areNear(source, rank) && via[source] == by)
              .toArray();
    }
    section = new int[n];
    arrive = new int[n];
    relayedFirst = new int[n + 1];
    leaving = new int[n + 1];
    forwarded = new int[n + 1];
    next = new int[n];
    nextRow = new int[sizes.localExperts() * n];
    lastOfRank = new int[n];
    lastOfHost = new int[relays.hosts()];
    targets = new int[sizes.topK()];
  }

  /** Numbers of rows. */
  record Rows(int first, int count) {}

  /** The most staging rows. */
  long mostStaged() {
    long others = Math.min(n - 1, sizes.topK());
    return sizes.maxTokens() * (n + others) + mostForwarded();
  }

  /** The most own tokens that are packed. */
  long mostPacked() {
    return (long) sizes.maxTokens() * Math.min(n, sizes.topK());
  }

  /** The most tokens that are forwarded. */
  long mostForwarded() {
    long near = IntStream.range(0, n).filter(each -> relays.areNear(each, rank)).count() - 1;
    return (long) relayed[rank].length * sizes.maxTokens() * Math.min(near, sizes.topK());
  }

  /** Finds the routes, of which the lists are made. */
  void find(IntBuffer tables) {
    int[] leave = new int[n];
    int[] forward = new int[n];
    Arrays.fill(arrive, 0);
    for (int source = 0; source < n; source++) {
      start();
      for (int token = 0; token < tables.get(source * table); token++) {
        look(tables, source, token);
        arrive[source] += arrives(source, token) ? 1 : 0;
        if (source == rank) {
          countOwn(token, leave);
        } else if (isRelayed(source)) {
          countForwarded(forward);
        }
      }
    }
    int behind = layOut();
    sum(leaving, behind, leave);
    sum(forwarded, leaving[n], forward);
  }

  /** Puts the sections one behind the other; returns the row behind them. */
  private int layOut() {
    int row = 0;
    for (int peer = 0; peer < n; peer++) {
      if (direct[peer]) {
        section[peer] = row;
        row += arrive[peer];
      }
      relayedFirst[peer] = row;
      if (peer != rank) {
        for (int source : relayed[peer]) {
          section[source] = row;
          row += arrive[source];
        }
      }
    }
    relayedFirst[n] = row;
    return row;
  }

  /** Puts sections of so many rows one behind the other, from a first row on. */
  static void sum(int[] firsts, int first, int[] counts) {
    firsts[0] = first;
    for (int i = 0; i < counts.length; i++) {
      firsts[i + 1] = firsts[i] + counts[i];
    }
  }

  /** True for a rank of another host whose relay is this one. */
  private boolean isRelayed(int source) {
    return direct[source] && !relays.areNear(source, rank);
  }

  /** Before the tokens of a rank are looked at. */
  private void start() {
    Arrays.fill(lastOfRank, -1);
    Arrays.fill(lastOfHost, -1);
  }

  /** Finds the targets of a rank's next token. */
  private void look(IntBuffer tables, int source, int token) {
    nTargets = 0;
    for (int k = 0; k < sizes.topK(); k++) {
      int target = target(tables, source, token * sizes.topK() + k);
      if (target >= 0 && lastOfRank[target] != token) {
        lastOfRank[target] = token;
        lastOfHost[relays.host(target)] = token;
        targets[nTargets++] = target;
      }
    }
  }

  /** The rank of an entry's expert, or -1. */
  private int target(IntBuffer tables, int source, int entry) {
    int expert = tables.get(source * table + 1 + entry);
    return expert < 0 ? -1 : expert / sizes.localExperts();
  }

  /** True if the token that was looked at is in the section of its source. */
  private boolean arrives(int source, int token) {
    return isRelayed(source) ? lastOfHost[relays.host(rank)] == token : lastOfRank[rank] == token;
  }

  private void countOwn(int token, int[] leave) {
    for (int i = 0; i < nTargets; i++) {
      if (relays.areNear(targets[i], rank) && targets[i] != rank) {
        leave[targets[i]]++;
      }
    }
    for (int h = 0; h < lastOfHost.length; h++) {
      if (h != relays.host(rank) && lastOfHost[h] == token) {
        leave[relays.relay(rank, h)]++;
      }
    }
  }

  private void countForwarded(int[] forward) {
    for (int i = 0; i < nTargets; i++) {
      if (relays.areNear(targets[i], rank) && targets[i] != rank) {
        forward[targets[i]]++;
      }
    }
  }

  /** Staging rows of the tokens that another rank sends straight here. */
  Rows arriving(int source) {
    return new Rows(section[source], direct[source] ? arrive[source] : 0);
  }

  /** Staging rows of the tokens that another rank forwards. */
  Rows relayed(int by) {
    int count = 0;
    for (int source : by == rank ? new int[0] : relayed[by]) {
      count += arrive[source];
    }
    return new Rows(relayedFirst[by], count);
  }

  /** Staging rows of the tokens that are sent to another rank. */
  Rows leaving(int target) {
    return new Rows(leaving[target], leaving[target + 1] - leaving[target]);
  }

  /** Staging rows of the tokens that are forwarded to another rank. */
  Rows forwarded(int target) {
    return new Rows(forwarded[target], forwarded[target + 1] - forwarded[target]);
  }

  /** Own tokens that are packed: one for each rank or relay that gets them. */
  int packed() {
    return leaving[n] - leaving[0] + arrive[rank];
  }

  /** Tokens that are forwarded. */
  int forwarded() {
    return forwarded[n] - forwarded[0];
  }

  /** Puts the packed tokens, each with its number and its staging row, in two lists. */
  void listPacked(IntBuffer tables, IntBuffer tokens, IntBuffer rows) {
    System.arraycopy(leaving, 0, next, 0, n);
    next[rank] = section[rank];
    start();
    for (int token = 0; token < tables.get(rank * table); token++) {
      look(tables, rank, token);
      for (int i = 0; i < nTargets; i++) {
        if (relays.areNear(targets[i], rank)) {
          tokens.put(token);
          rows.put(next[targets[i]]++);
        }
      }
      for (int h = 0; h < lastOfHost.length; h++) {
        if (h != relays.host(rank) && lastOfHost[h] == token) {
          tokens.put(token);
          rows.put(next[relays.relay(rank, h)]++);
        }
      }
    }
  }

  /** Puts the forwarded tokens, each with its two staging rows, in two lists. */
  void listForwarded(IntBuffer tables, IntBuffer from, IntBuffer to) {
    System.arraycopy(forwarded, 0, next, 0, n);
    for (int source : relayed[rank]) {
      int staged = section[source];
      start();
      for (int token = 0; token < tables.get(source * table); token++) {
        look(tables, source, token);
        for (int i = 0; i < nTargets; i++) {
          if (relays.areNear(targets[i], rank) && targets[i] != rank) {
            from.put(staged);
            to.put(next[targets[i]]++);
          }
        }
        staged += arrives(source, token) ? 1 : 0;
      }
    }
  }

  /** Lists for each received row the staging row that it is of. */
  void listReceived(IntBuffer tables, ExpertRows rows, IntBuffer from) {
    int local = sizes.localExperts();
    rows.copyFirsts(nextRow);
    for (int source = 0; source < n; source++) {
      int staged = section[source];
      start();
      for (int token = 0; token < tables.get(source * table); token++) {
        look(tables, source, token);
        for (int k = 0; k < sizes.topK() && lastOfRank[rank] == token; k++) {
          int expert = tables.get(source * table + 1 + token * sizes.topK() + k) - rank * local;
          if (expert >= 0 && expert < local) {
            from.put(nextRow[expert * n + source]++, staged);
          }
        }
        staged += arrives(source, token) ? 1 : 0;
      }
    }
  }
}
