package org.nccl4j.api.window;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.RmaSpace;

/** The routes of puts between this rank and ranks outside its team. */
public interface RemotePeers {
  /**
   * Makes ready to connect with them, or connects at once, at the first call. Collective.
   *
   * @param windows those of this rank
   * @throws org.nccl4j.device.NcclException if they cannot be connected, on all ranks
   */
  void open(RmaSpace.Windows windows);

  /** True if puts can reach them, or {@link #reach} can connect them. */
  boolean isOpen();

  /** True if a rank outside the team is connected: {@link #reach} would do nothing. */
  boolean isReached(int rank);

  /**
   * Connects with some ranks outside the team, unless they are connected, before an operation with
   * them is prepared; they need not call anything. Any thread, once it is open.
   *
   * @throws org.nccl4j.device.NcclException if one cannot be connected by the deadline, or the
   *     communicator has failed
   */
  void reach(Set<Integer> ranks);

  /** Why puts do not reach them; empty if they do, or will once a window is registered. */
  Optional<Obstacle> obstacle();

  /**
   * Makes the ring of puts of a device communicator's kernels, and connects for it at the first
   * call. Collective.
   *
   * @param windows those of this rank
   * @throws org.nccl4j.device.InvalidUsageException if they cannot be reached, on all ranks
   * @throws org.nccl4j.device.NcclException if they cannot be connected, on all ranks
   */
  RmaSpace.KernelRing kernelRing(RmaSpace.Windows windows, int signals);

  /** Returns the number of messages that this rank has sent to each rank. */
  List<Long> sent();

  /**
   * Waits until what other ranks have sent to this one is in its windows.
   *
   * @param due how many messages, by rank
   * @throws org.nccl4j.device.TimeoutException naming a rank whose messages have not come
   */
  void awaitArrived(List<Long> due);

  /**
   * From now on nothing is written into this rank's windows.
   *
   * @return false if a thread still writes, whose turn does not end
   */
  boolean end();

  /**
   * A reason against it.
   *
   * @param problem as a clause
   * @param remedy what to do
   */
  record Obstacle(String problem, String remedy) {}

  /** None that could be reached. */
  static RemotePeers none(String problem, String remedy) {
    return new RemotePeers() {
      @Override
      public void open(RmaSpace.Windows windows) {}

      @Override
      public boolean isOpen() {
        return false;
      }

      @Override
      public boolean isReached(int rank) {
        return true;
      }

      @Override
      public void reach(Set<Integer> ranks) {}

      @Override
      public Optional<Obstacle> obstacle() {
        return Optional.of(new Obstacle(problem, remedy));
      }

      @Override
      public RmaSpace.KernelRing kernelRing(RmaSpace.Windows windows, int signals) {
        throw new InvalidUsageException(ErrorId.UNSUPPORTED, problem, remedy);
      }

      @Override
      public List<Long> sent() {
        return List.of();
      }

      @Override
      public void awaitArrived(List<Long> due) {}

      @Override
      public boolean end() {
        return true;
      }
    };
  }
}
