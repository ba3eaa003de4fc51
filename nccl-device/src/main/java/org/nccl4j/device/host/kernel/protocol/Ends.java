package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.SharedConnections;

/**
 * A communicator's connections, each with its step, by peer. Communicators that share connections
 * have ends of their own, numbered by their own ranks; the steps go from one to the next when
 * another's kernel runs.
 */
public final class Ends {
  private static final VarHandle ENDED;

  static {
    try {
      ENDED = MethodHandles.lookup().findVarHandle(Ends.class, "ended", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /**
   * Kernels on these ends that have ended, where the connections are another's. Written by the
   * thread whose turn it is; read by whoever watches, a little late.
   */
  private long ended;

  private final SendEnd[] sends;
  private final RecvEnd[] recvs;

  /** Steps of all connections while another's kernels run, by the first communicator's ranks. */
  private final long[] sendSteps;

  private final long[] recvSteps;

  /** This communicator's ranks as ranks of the first. */
  private final int[] firstRanks;

  private final Users users;

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
  public Ends(KernelCommunicatorSpec spec, Ends parent, List<Integer> parentRanks, String path) {
    name = spec.name();
    rank = spec.rank();
    users = parent.users;
    user = SharedConnections.user(path);
    sends = new SendEnd[spec.nRanks()];
    recvs = new RecvEnd[spec.nRanks()];
    sendSteps = parent.sendSteps;
    recvSteps = parent.recvSteps;
    firstRanks = parentRanks.stream().mapToInt(rank -> parent.firstRanks[rank]).toArray();
    for (int peer = 0; peer < spec.nRanks(); peer++) {
      int theirs = parentRanks.get(peer);
      if (peer != spec.rank()) {
        sends[peer] = parent.sends[theirs].numbered(peer);
        recvs[peer] = parent.recvs[theirs].numbered(peer);
      }
    }
  }

  public Ends(KernelCommunicatorSpec spec) {
    name = spec.name();
    rank = spec.rank();
    users = new Users(spec.nRanks());
    user = SharedConnections.FIRST;
    sends = new SendEnd[spec.nRanks()];
    recvs = new RecvEnd[spec.nRanks()];
    sendSteps = new long[spec.nRanks()];
    recvSteps = new long[spec.nRanks()];
    firstRanks = IntStream.range(0, spec.nRanks()).toArray();
    for (int peer = 0; peer < spec.nRanks(); peer++) {
      Connection to = at(spec.sends(), peer);
      Connection from = at(spec.recvs(), peer);
      sends[peer] = to == null ? null : new SendEnd(peer, to, spec.layout());
      recvs[peer] = from == null ? null : new RecvEnd(peer, from, spec.layout());
    }
  }

  /** Counts a kernel that has ended. Of the thread whose turn it is. */
  @HotPath
  public void countEnded() {
    ENDED.setOpaque(this, ended + 1);
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
  public void takeOver(Ends other) {
    for (int peer = 0; peer < other.sends.length; peer++) {
      if (other.sends[peer] != null) {
        other.sendSteps[other.firstRanks[peer]] = other.sends[peer].step();
        other.recvSteps[other.firstRanks[peer]] = other.recvs[peer].step();
      }
    }
    for (int peer = 0; peer < sends.length; peer++) {
      if (sends[peer] != null) {
        goOn(peer, firstRanks[peer], other);
      }
    }
  }

  private void goOn(int peer, int first, Ends other) {
    sends[peer].goOnAt(sendSteps[first]);
    recvs[peer].goOnAt(recvSteps[first]);
    users.sends(sends[peer], first, user);
    if (!users.receives(recvs[peer], first, user)) {
      throw SharedConnections.mismatch(
          SharedConnections.complaint(
              "%s, the last being one of %s,".formatted(name, other.name), rank, peer));
    }
  }

  private static Connection at(List<Connection> connections, int peer) {
    return connections.get(peer);
  }

  public SendEnd send(int peer) {
    return checked(sends[peer], peer);
  }

  public RecvEnd recv(int peer) {
    return checked(recvs[peer], peer);
  }

  private static <T> T checked(T end, int peer) {
    if (end == null) {
      throw new InternalErrorException(
          "there is no connection to rank " + peer, "report this: it should have been made");
    }
    return end;
  }
}
