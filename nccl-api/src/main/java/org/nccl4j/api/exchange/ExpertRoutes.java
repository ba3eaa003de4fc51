package org.nccl4j.api.exchange;

import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * The routes of a dispatch whose tokens travel once to each host, and of its combine, from the
 * tables of all ranks ({@link ExpertTables}).
 *
 * <p>A rank sends a token straight to the ranks of its own host that get it. Of another host one
 * rank, its relay there, gets each token for that host once, and forwards it to the others. Ranks
 * with the same place on their hosts are each other's relays, so that every network adapter has its
 * share. Outputs travel straight to the token's rank.
 *
 * <p>The staging memory has the tokens that arrive, in a section for each source rank. A relay's
 * section has those for its whole host. Behind them are the tokens for each rank, then those
 * forwarded to each rank; own tokens are put straight among the arriving. The memory of outputs has
 * those that come back, by the rank of their expert and entry, and behind them those that are
 * returned, by source rank and entry; own outputs are put straight among the former.
 */
public final class ExpertRoutes {
  /** The place of an entry without an output. */
  private static final int ABSENT = -1;

  private final ExpertSizes sizes;
  private final int n;
  private final int rank;
  private final int table;

  /** The host of each rank. */
  private final int[] host;

  /** The relay of this rank on each other host; this rank itself for its own. */
  private final int[] relays;

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

  /** The first row of the outputs that each rank's experts return. */
  private final int[] back;

  /** The first row of the outputs that each source rank gets. */
  private final int[] out;

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
   * @param hosts the ranks of each host, ascending
   */
  public ExpertRoutes(ExpertSizes sizes, int rank, List<List<Integer>> hosts) {
    this.sizes = sizes;
    this.n = sizes.nRanks();
    this.rank = rank;
    this.table = ExpertTables.words(sizes);
    host = new int[n];
    for (int h = 0; h < hosts.size(); h++) {
      for (int each : hosts.get(h)) {
        host[each] = h;
      }
    }
    relays = IntStream.range(0, hosts.size()).map(h -> relay(hosts, rank, h)).toArray();
    direct = new boolean[n];
    int[] via = new int[n];
    for (int source = 0; source < n; source++) {
      boolean near = host[source] == host[rank];
      via[source] = near ? source : relay(hosts, source, host[rank]);
      direct[source] = near || via[source] == rank;
    }
    relayed = new int[n][];
    for (int peer = 0; peer < n; peer++) {
      int by = peer;
      relayed[peer] =
          IntStream.range(0, n)
              .filter(source -> host[source] != host[rank] && via[source] == by)
              .toArray();
    }
    section = new int[n];
    arrive = new int[n];
    relayedFirst = new int[n + 1];
    leaving = new int[n + 1];
    forwarded = new int[n + 1];
    back = new int[n + 1];
    out = new int[n + 1];
    next = new int[n];
    nextRow = new int[sizes.localExperts() * n];
    lastOfRank = new int[n];
    lastOfHost = new int[hosts.size()];
    targets = new int[sizes.topK()];
  }

  /** The rank of a host that gets another rank's tokens for that host. */
  private static int relay(List<List<Integer>> hosts, int source, int h) {
    int place =
        hosts.stream()
            .filter(ranks -> ranks.contains(source))
            .findFirst()
            .orElseThrow()
            .indexOf(source);
    return hosts.get(h).get(place % hosts.get(h).size());
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
    long near = IntStream.of(host).filter(h -> h == host[rank]).count() - 1;
    return (long) relayed[rank].length * sizes.maxTokens() * Math.min(near, sizes.topK());
  }

  /** The most bytes of the lists of a dispatch; an int for the sizes that are allowed. */
  public long listBytes() {
    long pairs = mostPacked() + mostForwarded() + sizes.rows() + sizes.entries();
    return 2 * pairs * Integer.BYTES;
  }

  /** Finds the routes, of which the lists are made. */
  void find(IntBuffer tables, ExpertRows rows) {
    int[] leave = new int[n];
    int[] forward = new int[n];
    int[] outputs = new int[n];
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
      for (int expert = 0; expert < rows.local(); expert++) {
        outputs[source] += source == rank ? 0 : rows.received(expert, source);
      }
    }
    int[] returned = new int[n];
    for (int expert = 0; expert < sizes.experts(); expert++) {
      returned[expert / rows.local()] += rows.sent(expert);
    }
    int behind = layOut();
    sum(leaving, behind, leave);
    sum(forwarded, leaving[n], forward);
    sum(back, 0, returned);
    sum(out, back[n], outputs);
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

  private static void sum(int[] firsts, int first, int[] counts) {
    firsts[0] = first;
    for (int i = 0; i < counts.length; i++) {
      firsts[i + 1] = firsts[i] + counts[i];
    }
  }

  /** True for a rank of another host whose relay is this one. */
  private boolean isRelayed(int source) {
    return direct[source] && host[source] != host[rank];
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
        lastOfHost[host[target]] = token;
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
    return isRelayed(source) ? lastOfHost[host[rank]] == token : lastOfRank[rank] == token;
  }

  private void countOwn(int token, int[] leave) {
    for (int i = 0; i < nTargets; i++) {
      if (host[targets[i]] == host[rank] && targets[i] != rank) {
        leave[targets[i]]++;
      }
    }
    for (int h = 0; h < relays.length; h++) {
      if (h != host[rank] && lastOfHost[h] == token) {
        leave[relays[h]]++;
      }
    }
  }

  private void countForwarded(int[] forward) {
    for (int i = 0; i < nTargets; i++) {
      if (host[targets[i]] == host[rank] && targets[i] != rank) {
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

  /** Rows of the outputs that another rank returns. */
  Rows back(int from) {
    return new Rows(back[from], back[from + 1] - back[from]);
  }

  /** Rows of the outputs for another rank. */
  Rows out(int to) {
    return new Rows(out[to], out[to + 1] - out[to]);
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
        if (host[targets[i]] == host[rank]) {
          tokens.put(token);
          rows.put(next[targets[i]]++);
        }
      }
      for (int h = 0; h < relays.length; h++) {
        if (h != host[rank] && lastOfHost[h] == token) {
          tokens.put(token);
          rows.put(next[relays[h]]++);
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
          if (host[targets[i]] == host[rank] && targets[i] != rank) {
            from.put(staged);
            to.put(next[targets[i]]++);
          }
        }
        staged += arrives(source, token) ? 1 : 0;
      }
    }
  }

  /**
   * Lists for each received row the staging row that it is of, and its row in the memory of
   * outputs.
   */
  void listReceived(IntBuffer tables, ExpertRows rows, IntBuffer from, IntBuffer outputs) {
    int local = sizes.localExperts();
    for (int expert = 0; expert < local; expert++) {
      for (int source = 0; source < n; source++) {
        nextRow[expert * n + source] = rows.receivedFirst(expert, source);
      }
    }
    for (int source = 0; source < n; source++) {
      int staged = section[source];
      int output = source == rank ? back[rank] : out[source];
      start();
      for (int token = 0; token < tables.get(source * table); token++) {
        look(tables, source, token);
        for (int k = 0; k < sizes.topK() && lastOfRank[rank] == token; k++) {
          int expert = tables.get(source * table + 1 + token * sizes.topK() + k) - rank * local;
          if (expert >= 0 && expert < local) {
            int row = nextRow[expert * n + source]++;
            from.put(row, staged);
            outputs.put(row, output++);
          }
        }
        staged += arrives(source, token) ? 1 : 0;
      }
    }
  }

  /** Puts for each own entry its row in the memory of outputs. */
  void listReturned(IntBuffer tables, IntBuffer places) {
    System.arraycopy(back, 0, next, 0, n);
    int entries = tables.get(rank * table) * sizes.topK();
    for (int entry = 0; entry < entries; entry++) {
      int target = target(tables, rank, entry);
      places.put(target < 0 ? ABSENT : next[target]++);
    }
  }
}
