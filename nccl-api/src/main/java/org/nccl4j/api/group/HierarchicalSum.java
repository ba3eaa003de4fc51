package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.kernel.HostGrid;
import org.nccl4j.device.kernel.QuantisedWork;

/**
 * The way of a quantised sum among hosts with as many ranks each. The ranks with one number on
 * their hosts, a rail, own a share of the elements: in an all-reduce a part for each of them, in a
 * reduce-scatter what each of them receives. First each rank gets the copies of its share from the
 * ranks of its host, plain, adds them in float32 and quantises the sum to a part for each host.
 * Then the ranks of a rail exchange these parts and add those of all hosts.
 *
 * @param grid this rank's place
 * @param whole the parts of all ranks: in an all-reduce those of a rail one after the other, by
 *     host
 * @param scatters true for a reduce-scatter
 */
record HierarchicalSum(HostGrid grid, QuantisedWork.Parts whole, boolean scatters) {
  private static final int UNIT = 16;

  private int nHosts() {
    return grid.hosts();
  }

  private int element() {
    return whole.type().bytes();
  }

  /** Elements of a rail's share. */
  private long share(int rail) {
    long most = nHosts() * whole.part();
    return scatters ? most : Math.max(0, Math.min(most, whole.count() - rail * most));
  }

  /** Returns the parts of this rank's share, one for each host. */
  QuantisedWork.Parts parts() {
    return new QuantisedWork.Parts(
        whole.type(),
        whole.format(),
        whole.block(),
        whole.divisor(),
        nHosts(),
        whole.part(),
        share(grid.index()));
  }

  /** Returns the place of the errors of this rank's share among those of all elements. */
  long firstError() {
    return Math.min(grid.index() * nHosts() * whole.part(), whole.count() - share(grid.index()));
  }

  /** Returns the copies of this rank's share. */
  QuantisedWork.Copies copies() {
    long bytes = nHosts() * whole.part() * element();
    return new QuantisedWork.Copies(grid.locals(), (bytes + UNIT - 1) / UNIT * UNIT);
  }

  /** Returns the bytes of the copies. */
  long copyBytes() {
    return copies().number() * copies().stride();
  }

  /** Returns the bytes of the parts of a share. */
  long shareBytes() {
    return nHosts() * whole.bytes();
  }

  /** Returns the bytes of the parts that this rank has made, and at the end of those of all. */
  long outBytes() {
    return (scatters ? 1 : grid.locals()) * shareBytes();
  }

  /** Returns the place of the parts of this rank's share among them, in bytes. */
  long firstPart() {
    return scatters ? 0 : grid.index() * shareBytes();
  }

  /** Messages that bring the copies of a share to its owner. */
  List<Planner.Message> toOwners() {
    List<Planner.Message> messages = new ArrayList<>();
    int n = grid.locals();
    for (int distance = 0; distance < n; distance++) {
      int to = (grid.index() + distance) % n;
      int from = Math.floorMod(grid.index() - distance, n);
      int sender = grid.at(grid.host(), from);
      int owner = grid.at(grid.host(), to);
      long into = from * copies().stride();
      if (scatters) {
        long bytes = whole.part() * element();
        for (int host = 0; host < nHosts(); host++) {
          add(messages, true, owner, grid.at(host, to) * bytes, bytes);
          add(messages, false, sender, into + host * bytes, bytes);
        }
      } else {
        long first = to * nHosts() * whole.part();
        add(messages, true, owner, first * element(), share(to) * element());
        add(messages, false, sender, into, share(grid.index()) * element());
      }
    }
    return messages;
  }

  private static void add(
      List<Planner.Message> messages, boolean sends, int peer, long offset, long bytes) {
    if (bytes > 0) {
      messages.add(new Planner.Message(sends, peer, offset, bytes));
    }
  }

  /** Messages that bring the parts of a rail's share to their hosts, this rank's own too. */
  List<Planner.Message> betweenHosts() {
    return alongRail(0, true, 0);
  }

  /**
   * Messages that bring the parts of the sum to all ranks: first between hosts, then within each.
   */
  List<List<Planner.Message>> toAll() {
    List<Planner.Message> within = new ArrayList<>();
    int n = grid.locals();
    for (int distance = 1; distance < n; distance++) {
      int to = (grid.index() + distance) % n;
      int from = Math.floorMod(grid.index() - distance, n);
      add(within, true, grid.at(grid.host(), to), grid.index() * shareBytes(), shareBytes());
      add(within, false, grid.at(grid.host(), from), from * shareBytes(), shareBytes());
    }
    return List.of(alongRail(1, false, firstPart()), within);
  }

  /**
   * Messages between the ranks of a rail, a part each.
   *
   * @param nearest 0 where this rank is among them, else 1
   * @param ofEach true where each gets its own part; else each gets this rank's
   * @param begin of the parts in both buffers
   */
  private List<Planner.Message> alongRail(int nearest, boolean ofEach, long begin) {
    List<Planner.Message> messages = new ArrayList<>();
    for (int distance = nearest; distance < nHosts(); distance++) {
      int to = (grid.host() + distance) % nHosts();
      int from = Math.floorMod(grid.host() - distance, nHosts());
      int sent = ofEach ? to : grid.host();
      add(messages, true, grid.at(to, grid.index()), begin + sent * whole.bytes(), whole.bytes());
      add(
          messages,
          false,
          grid.at(from, grid.index()),
          begin + from * whole.bytes(),
          whole.bytes());
    }
    return messages;
  }

  /** Messages of one step that are under way at once, at most: those to and from other ranks. */
  int mostMessages() {
    int near = (scatters ? nHosts() : 1) * grid.locals();
    return 2 * Math.max(near, nHosts());
  }

  /** Returns the bytes that all ranks of a host send to other hosts. */
  long bytesBetweenHosts() {
    return (scatters ? 1 : 2) * farBytes();
  }

  private long farBytes() {
    return grid.locals() * (nHosts() - 1L) * whole.bytes();
  }

  /**
   * Predicted microseconds of the messages.
   *
   * @param toOwners within hosts, plain
   * @param between hosts, and back where the sum goes to all
   * @param toAll within hosts; 0 for a reduce-scatter
   */
  record Times(double toOwners, double between, double toAll) {
    double sum() {
      return toOwners + between + toAll;
    }
  }

  Times times(Planner planner) {
    int near = grid.locals() - 1;
    int far = nHosts() - 1;
    long plain = near * nHosts() * whole.part() * element();
    double once = planner.predictMessages(0, 0, far, farBytes());
    return new Times(
        planner.predictMessages((scatters ? nHosts() : 1) * near, plain, 0, 0),
        scatters ? once : 2 * once,
        scatters ? 0 : planner.predictMessages(near, near * shareBytes(), 0, 0));
  }
}
