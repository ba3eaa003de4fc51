package org.nccl4j.device.cuda;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.plan.ConnectionMemory;
import org.nccl4j.device.cuda.stream.CaptureRegistry;
import org.nccl4j.device.cuda.stream.ConnectionOrder;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.support.CloseAll;

/**
 * The communicators of a rank that use the same connections: the one that they were made for, and
 * all that share them with it. They have the connections' memory and one order of launches in
 * common, and where one has failed all have, since it leaves connections in the middle of a step.
 * Freed with the first, which is closed last. Any thread.
 */
final class ConnectionUsers implements AutoCloseable {
  /** One of them, as the others know it. Any thread may call. */
  interface Member {
    /** The sentence of a kernel or stream that has waited too long; null while all is well. */
    String complaint();

    /** Fails by a complaint. */
    void explain(String complaint);

    /** Ends what runs and waits: all that use the connections have failed. */
    void end();
  }

  private static final long GLANCE_NANOS = 1_000_000;

  private final ConnectionMemory memory;
  private final ConnectionOrder order;

  /** The first failure of any; null while there is none. Written under this object's monitor. */
  private volatile NcclException failure;

  private volatile long looked = System.nanoTime() - GLANCE_NANOS;

  /** Open ones, the first first; replaced under this object's monitor. */
  private volatile List<Member> all = List.of();

  /** Number of open ones, likewise. */
  private volatile int count;

  /** Creates the connections of a new communicator. */
  ConnectionUsers(Gpu gpu, CaptureRegistry captures, KernelCommunicatorSpec spec) {
    memory = new ConnectionMemory(gpu, spec);
    try {
      order = new ConnectionOrder(gpu, captures);
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  /** Returns the spec of a communicator that uses its parent's connections to some of its ranks. */
  static KernelCommunicatorSpec connected(
      KernelCommunicatorSpec spec, KernelCommunicatorSpec parent, List<Integer> parentRanks) {
    return spec.withConnections(
        some(parent.sends(), parentRanks, spec.rank()),
        some(parent.recvs(), parentRanks, spec.rank()));
  }

  private static List<Connection> some(
      List<Connection> connections, List<Integer> ranks, int self) {
    List<Connection> some = new ArrayList<>();
    for (int peer = 0; peer < ranks.size(); peer++) {
      some.add(peer == self ? null : connections.get(ranks.get(peer)));
    }
    return some;
  }

  ConnectionMemory memory() {
    return memory;
  }

  ConnectionOrder order() {
    return order;
  }

  /** One more; it ends at once if the others have failed. */
  synchronized void add(Member user) {
    List<Member> more = new ArrayList<>(all);
    more.add(user);
    all = List.copyOf(more);
    count = all.size();
    if (failure != null) {
      user.end();
    }
  }

  /** One less. From the action on nobody looks at it. */
  synchronized void remove(Member user, Runnable action) {
    all = all.stream().filter(other -> other != user).toList();
    count = all.size();
    action.run();
  }

  /** Returns the number of open communicators. */
  @HotPath
  int count() {
    return count;
  }

  /** True if it is the one that the connections were made for. */
  boolean isFirst(Member user) {
    List<Member> now = all;
    return !now.isEmpty() && now.get(0) == user;
  }

  /** The first failure of any; null if there was none, as far as is known. */
  @HotPath
  NcclException failure() {
    return failure;
  }

  /**
   * Calls {@link #look} at most once per millisecond. It is cheap enough for every launch where
   * there are others.
   */
  @HotPath
  void glance(Member self) {
    long now = System.nanoTime();
    if (now - looked > GLANCE_NANOS) {
      looked = now;
      look(self);
    }
  }

  /** Looks whether a kernel of another, or a stream, has waited too long. */
  void look(Member self) {
    List<Member> now = all;
    for (int i = 0; now.size() > 1 && i < now.size(); i++) {
      Member other = now.get(i);
      String complaint;
      synchronized (this) { // a member must not close meanwhile
        complaint = other == self ? null : other.complaint();
      }
      if (complaint != null) {
        other.explain(complaint);
      }
    }
  }

  /** All have failed. The first cause counts. Each is ended; then the first error is thrown. */
  synchronized void fail(NcclException cause) {
    failure = failure == null ? cause : failure;
    CloseAll.each(all, Member::end);
  }

  @Override
  public void close() {
    order.close();
    memory.close();
  }
}
