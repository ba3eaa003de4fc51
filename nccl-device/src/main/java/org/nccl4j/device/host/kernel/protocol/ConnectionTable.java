package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.SharedConnections;

/**
 * A communicator's connections, each with its step, by peer. Communicators that share connections
 * have ends of their own, numbered by their own ranks; the steps go from one to the next when
 * another's kernel runs.
 *
 * <p>A connection may be made when a plan first needs it: {@link #send} and {@link #recv} then give
 * an end without one, and {@link #connect} makes all that were asked for. The thread that runs
 * kernels takes new ends into use before the first kernel that needs them.
 */
public final class ConnectionTable {
  private static final VarHandle ENDED;

  static {
    try {
      ENDED = MethodHandles.lookup().findVarHandle(ConnectionTable.class, "ended", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /**
   * Kernels on these ends that have ended, where the connections are another's. Written by the
   * thread whose turn it is; read by the progress monitor, a little late.
   */
  private long ended;

  /** Longest time that a failed kernel waits for receivers, each of which is copying a step. */
  private static final long REVOKE_NANOS = 10_000_000_000L;

  private final Exposures exposures;

  /** The steps that are read from the sender's buffer. */
  private final SingleCopy singleCopy;

  /** Ends by peer; null where none was needed yet. Of the thread that plans. */
  private final SendEnd[] sends;

  private final RecvEnd[] recvs;

  /** True for each peer whose ends have steps. Of the thread whose turn it is. */
  private final boolean[] used;

  /** Peers whose ends are bound and not in use yet; guarded by itself. */
  private final List<Integer> fresh = new ArrayList<>();

  /** True if there are such peers. Written after the list; read by the thread whose turn it is. */
  private volatile boolean anyFresh;

  /** Peers whose ends have no connection yet. Of the thread that plans. */
  private final Set<Integer> unbound = new TreeSet<>();

  private final ConnectionLayout layout;

  /** Makes connections of the first communicator; null where another has that. */
  private final PeerConnector connector;

  /** The communicator whose connections these ends use; null for the first. */
  private final ConnectionTable parent;

  /** This communicator's ranks as ranks of the parent; null for the first. */
  private final int[] parentRanks;

  /** Steps of all connections while another's kernels run, by the first communicator's ranks. */
  private final long[] sendSteps;

  private final long[] recvSteps;

  /** This communicator's ranks as ranks of the first. */
  private final int[] firstRanks;

  private final SharingCheck users;

  /** This communicator among them. */
  private final int user;

  private final String name;
  private final int rank;

  /**
   * Ends on another's connections.
   *
   * @param parentRanks this communicator's ranks as ranks of the parent
   * @param path where this communicator comes from: the same on all its ranks
   */
  public ConnectionTable(
      KernelCommunicatorSpec spec, ConnectionTable parent, List<Integer> parentRanks, String path) {
    this.parent = parent;
    this.parentRanks = parentRanks.stream().mapToInt(Integer::intValue).toArray();
    name = spec.name();
    rank = spec.rank();
    layout = parent.layout;
    connector = null;
    users = parent.users;
    user = SharedConnections.user(path);
    sends = new SendEnd[spec.nRanks()];
    recvs = new RecvEnd[spec.nRanks()];
    used = new boolean[spec.nRanks()];
    exposures = new Exposures(spec.nRanks());
    singleCopy = parent.singleCopy;
    sendSteps = parent.sendSteps;
    recvSteps = parent.recvSteps;
    firstRanks = parentRanks.stream().mapToInt(rank -> parent.firstRanks[rank]).toArray();
    for (int peer = 0; peer < spec.nRanks(); peer++) {
      int theirs = parentRanks.get(peer);
      if (peer != spec.rank() && parent.isBound(theirs)) {
        sends[peer] = parent.sends[theirs].numbered(peer);
        recvs[peer] = parent.recvs[theirs].numbered(peer);
        expose(peer);
        used[peer] = true;
      }
    }
  }

  public ConnectionTable(KernelCommunicatorSpec spec) {
    parent = null;
    parentRanks = null;
    name = spec.name();
    rank = spec.rank();
    layout = spec.layout();
    connector = spec.connector();
    users = new SharingCheck(spec.nRanks());
    user = SharedConnections.FIRST;
    sends = new SendEnd[spec.nRanks()];
    recvs = new RecvEnd[spec.nRanks()];
    used = new boolean[spec.nRanks()];
    exposures = new Exposures(spec.nRanks());
    singleCopy = spec.singleCopy();
    sendSteps = new long[spec.nRanks()];
    recvSteps = new long[spec.nRanks()];
    firstRanks = IntStream.range(0, spec.nRanks()).toArray();
    for (int peer = 0; peer < spec.nRanks(); peer++) {
      Connection to = spec.sends().get(peer);
      Connection from = spec.recvs().get(peer);
      if (to != null && from != null) {
        sends[peer] = new SendEnd(peer, to, layout);
        recvs[peer] = new RecvEnd(peer, from, layout);
        expose(peer);
        used[peer] = true;
      }
    }
  }

  /**
   * Has new ends expose buffers and read exposed ones, if steps are to be read from the senders'
   * buffers.
   */
  private void expose(int peer) {
    if (singleCopy.equals(SingleCopy.OFF)) {
      return;
    }
    if (parent == null) {
      sends[peer].expose(singleCopy, exposures);
      recvs[peer].readExposures(
          singleCopy, "communicator %s, rank %d from rank %d".formatted(name, rank, peer));
    } else {
      sends[peer].expose(parent.sends[parentRanks[peer]], exposures);
      recvs[peer].readExposures(parent.recvs[parentRanks[peer]]);
    }
  }

  /**
   * Has an end of another connection expose, if steps are to be read from the senders' buffers:
   * {@link #settle} and {@link #revoke} are for it too. Its maker closes it.
   */
  public void exposeThrough(SendEnd end) {
    if (!singleCopy.equals(SingleCopy.OFF)) {
      end.expose(singleCopy, exposures);
    }
  }

  /** Waits at a kernel's end until all that it has exposed was read. */
  @HotPath
  public void settle(SpinWait waiter) {
    if (exposures.exist()) {
      exposures.settle(waiter);
    }
  }

  /**
   * After a failed kernel: takes back what it has exposed, and reads nothing any more.
   *
   * @param progress whose work may read what is exposed
   */
  public void revoke(Progress progress) {
    for (RecvEnd end : recvs) {
      if (end != null) {
        end.abandon();
      }
    }
    exposures.revoke(REVOKE_NANOS, progress);
  }

  /** Ends the offers of the connections' owner, which runs no more kernels. */
  public void close() {
    for (SendEnd end : sends) {
      if (parent == null && end != null) {
        end.close();
      }
    }
    for (RecvEnd end : recvs) {
      if (parent == null && end != null) {
        end.close();
      }
    }
  }

  /** Counts a kernel that has ended. Of the thread whose turn it is. */
  @HotPath
  public void countEnded() {
    ENDED.setOpaque(this, ended + 1);
  }

  /** Bytes that this communicator's kernels have sent to a peer. Any thread. */
  public long bytesSent(int peer) {
    SendEnd end = sends[peer];
    return end == null ? 0 : end.sent();
  }

  /** Kernels that have ended, where the connections are another's. Any thread. */
  public long ended() {
    return (long) ENDED.getOpaque(this);
  }

  /**
   * Goes on where another's kernels have left the connections.
   *
   * @throws OrderMismatchException if those got what was sent for yet another
   */
  public void takeOver(ConnectionTable other) {
    for (int peer = 0; peer < other.used.length; peer++) {
      if (other.used[peer]) {
        other.sendSteps[other.firstRanks[peer]] = other.sends[peer].step();
        other.recvSteps[other.firstRanks[peer]] = other.recvs[peer].step();
      }
    }
    for (int peer : takeFresh()) {
      used[peer] = true;
    }
    for (int peer = 0; peer < used.length; peer++) {
      if (used[peer]) {
        goOn(peer, firstRanks[peer], other);
      }
    }
  }

  /** True if ends were bound that are not in use yet. */
  @HotPath
  public boolean areFresh() {
    return anyFresh;
  }

  /** Takes into use the ends that were bound since; while no other's kernels have the turn. */
  public void useFresh() {
    for (int peer : takeFresh()) {
      used[peer] = true;
      goOn(peer, firstRanks[peer], this);
    }
  }

  private List<Integer> takeFresh() {
    anyFresh = false;
    synchronized (fresh) {
      List<Integer> taken = List.copyOf(fresh);
      fresh.clear();
      return taken;
    }
  }

  private void goOn(int peer, int first, ConnectionTable other) {
    sends[peer].goOnAt(sendSteps[first]);
    recvs[peer].goOnAt(recvSteps[first]);
    users.sends(sends[peer], first, user);
    if (!users.receives(recvs[peer], first, user)) {
      throw SharedConnections.mismatch(
          SharedConnections.complaint(
              "%s, the last being one of %s,".formatted(name, other.name), rank, peer));
    }
  }

  /** Returns the end that sends to a peer; without a connection until {@link #connect}. */
  public SendEnd send(int peer) {
    want(peer);
    return sends[peer];
  }

  /** Returns the end that receives from a peer; as {@link #send}. */
  public RecvEnd recv(int peer) {
    want(peer);
    return recvs[peer];
  }

  private void want(int peer) {
    if (sends[peer] == null) {
      sends[peer] = new SendEnd(peer, layout);
      recvs[peer] = new RecvEnd(peer, layout);
      unbound.add(peer);
    }
  }

  private boolean isBound(int peer) {
    return sends[peer] != null && sends[peer].isBound();
  }

  /**
   * Makes the connections of all ends that were asked for and have none. Of the thread that plans.
   *
   * @throws org.nccl4j.device.NcclException if a rank cannot be connected
   */
  public void connect() {
    if (unbound.isEmpty()) {
      return;
    }
    if (parent == null) {
      Map<Integer, PeerConnector.Pair> made = connector.connect(Set.copyOf(unbound));
      for (int peer : unbound) {
        sends[peer].bind(made.get(peer).send());
        recvs[peer].bind(made.get(peer).recv());
        expose(peer);
      }
    } else {
      for (int peer : unbound) {
        parent.want(parentRanks[peer]);
      }
      parent.connect();
      for (int peer : unbound) {
        sends[peer].bind(parent.sends[parentRanks[peer]]);
        recvs[peer].bind(parent.recvs[parentRanks[peer]]);
        expose(peer);
      }
    }
    synchronized (fresh) {
      fresh.addAll(unbound);
    }
    anyFresh = true;
    unbound.clear();
  }
}
