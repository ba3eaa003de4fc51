package org.nccl4j.device.kernel;

import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.operation.Algorithm;

/**
 * A communicator as its device's kernels see it. Launches of one communicator run in the order of
 * the calls, whatever their streams.
 *
 * <p>{@code prepare} and {@code launch} are called by one thread at a time (the engine sees to it);
 * {@code abort} by any.
 */
public interface KernelCommunicator extends AutoCloseable {
  /** Prepares a collective. */
  KernelPlan prepare(CollectiveWork work);

  /**
   * Prepares a collective that reduces by an operator of its own instead of the work's.
   *
   * @throws InvalidUsageException if this device has no such operator
   */
  KernelPlan prepare(CollectiveWork work, ReductionOperator operator);

  /**
   * True if an algorithm can reduce by an operator of its own; the same on all devices of a kind.
   */
  default boolean reducesByOperator(Algorithm algorithm) {
    return true;
  }

  /** True if {@link P2pWork#copies} means something here; the same on all devices of a kind. */
  default boolean hasCopyEngines() {
    return false;
  }

  /** Prepares sends and receives that progress together. */
  KernelPlan prepare(List<P2pWork> works);

  /**
   * Prepares sends and receives in steps, as one launch. Those of a step progress together, and
   * begin once this rank's of the step before have ended.
   *
   * @param steps each with a work of more than 0 bytes
   */
  KernelPlan prepareInSteps(List<List<P2pWork>> steps);

  /**
   * Tells of the team's space, once, before any work on windows is prepared; by the thread that
   * registers the first window, while others may launch.
   */
  void attach(SymmetricSpace space);

  /**
   * Tells how ranks outside the team are reached, once, before any one-sided work with them is
   * prepared; by the thread that registers the first window, while others may launch.
   *
   * @return what is to be given turns from then on; empty if this device cannot reach them
   */
  default Optional<RmaSpace.Arrivals> attach(RmaSpace remote) {
    return Optional.empty();
  }

  /**
   * Tells how kernels' own puts reach ranks outside the team, once, before a device communicator
   * has any.
   *
   * @param remote connections for these alone
   * @return what is to be given turns from then on; empty if this device has none
   */
  default Optional<RmaSpace.KernelPuts> attachKernelPuts(RmaSpace remote) {
    return Optional.empty();
  }

  /**
   * Makes a ring without slots, where all ranks are in the team: kernels that wait for signals
   * learn there of a failure and of the close, and say what they waited for. Any thread.
   *
   * @return empty where kernels find out themselves
   */
  default Optional<RmaSpace.KernelRing> controlRing(int signals) {
    return Optional.empty();
  }

  /**
   * Tells of the memory of NVLS, once it is made, before any work by NVLS is prepared; by the
   * thread that prepares. Not called where the communicator was created with that memory.
   *
   * @param made the place that the communicator was created with, and its memory
   */
  void attach(Nvls made);

  /** Prepares an operation straight between the buffers of the ranks, which are all in the team. */
  KernelPlan prepare(WindowWork work);

  /**
   * Prepares the steps of an exchange with experts by sends and receives.
   *
   * @param mostBlocks that their kernels may have on a GPU; 0 for no limit
   * @throws NcclException if this device has no kernels for them
   */
  ExpertKernels.Steps expertSteps(ExpertSizes sizes, int mostBlocks);

  /** Returns the kernels that bring tokens to experts; empty if this device has none. */
  default Optional<ExpertKernels> expertKernels() {
    return Optional.empty();
  }

  /**
   * Returns the kernels that exchange elements by counts in device memory; empty if this device has
   * none.
   */
  default Optional<RaggedKernels> raggedKernels() {
    return Optional.empty();
  }

  /**
   * Prepares a step of a quantised sum, which touches this rank's memory alone.
   *
   * @throws InvalidUsageException if this device has none
   */
  KernelPlan prepare(QuantisedWork work);

  /**
   * The reduction of copies of elements that a rank has in its own memory.
   *
   * @param operator a function of the user
   * @param copies at least 1; they lie one after the other in the send buffer, and are combined in
   *     their order. Of one copy the result is that copy
   * @param stride bytes from a copy to the next
   * @param count elements of a copy, of {@link ReductionOperator#elementBytes}, or of the type's
   * @param type of the elements; UINT8 for structs
   * @param mostBlocks that its kernel may have on a GPU; 0 for no limit
   */
  record LocalReduction(
      ReductionOperator operator,
      int copies,
      long stride,
      long count,
      DataType type,
      int mostBlocks) {
    /** Bytes of an element. */
    public int elementBytes() {
      return operator.elementBytes() == 0 ? type.bytes() : operator.elementBytes();
    }

    /** Bytes of the send buffer. */
    public long sendBytes() {
      return (copies - 1) * stride + recvBytes();
    }

    /** Bytes of the receive buffer. */
    public long recvBytes() {
      return count * elementBytes();
    }
  }

  /**
   * Prepares the reduction of copies in this rank's memory by a function of the user. What the
   * function needs is then compiled and loaded.
   *
   * @throws InvalidUsageException if the operator has no function for this device, or it does not
   *     compile
   */
  KernelPlan prepare(LocalReduction work);

  /** Prepares a one-sided operation on windows. */
  KernelPlan prepare(OneSidedWork work);

  /**
   * Puts a plan into a stream. Neither waits nor, once warm, allocates.
   *
   * @param plan of this communicator
   * @param send where the plan's data come from; may be null for a plan that names its own buffers
   * @param recv where the plan's data go to; may be null likewise
   * @param stream of this communicator's device
   */
  void launch(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream);

  /**
   * Returns what launches operations of groups together. Null if this device has nothing for that,
   * or a setting turns it off; the same on all ranks.
   */
  default GroupLaunch groupLaunch() {
    return null;
  }

  /**
   * Consecutive operations of a group, which fewer launches than operations may run at the same
   * time. All ranks add the same operations in the same order. A rank may launch them in several
   * steps, and other ranks in other ones. One for a communicator; of the thread that launches.
   */
  interface GroupLaunch {
    /**
     * Adds an operation on buffers that {@link #launch} as a launch of its own would take.
     *
     * @return false if it cannot be with those that were added, and was not: the same on all ranks
     */
    boolean add(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream);

    /** Returns the number of operations that were added. */
    int size();

    /**
     * Launches some of the operations; all of them are launched, one after the other.
     *
     * @param from the first
     * @param to behind the last
     * @return the plan of the last launch
     */
    KernelPlan launch(int from, int to);

    /** Forgets the operations. */
    void clear();
  }

  /**
   * Ends what runs and what is queued with an error, soon. Kernels that wait for another rank see
   * it at their next look. The first cause counts.
   */
  void abort(NcclException cause);

  /** The cause of the first abort or failed kernel, or null. */
  NcclException failure();

  /**
   * True if all that was launched has ended. Never waits, and disturbs no capture; no while one is
   * under way, and perhaps no at the first of several questions. On a device that is lost nothing
   * runs, and that it is lost becomes the {@link #failure}.
   */
  boolean isIdle();

  /**
   * Why others cannot use its connections now, as a clause; empty if they can. It may differ from
   * rank to rank, so the ranks have to agree before they {@link #share}.
   */
  Optional<String> sharingObstacle();

  /**
   * A communicator of some of this one's ranks that uses this one's connections and so needs no
   * memory. Launches of all that share are one order: the engine launches into one of them at a
   * time, and a failure of one is a failure of all. Closed before this one.
   *
   * @param spec of the new communicator; its connections are not looked at
   * @param parentRanks its ranks, as ranks of this one
   * @param path where it comes from: the same on all its ranks, another for each that shares
   */
  KernelCommunicator share(KernelCommunicatorSpec spec, List<Integer> parentRanks, String path);

  /** Bytes of device memory that it holds itself, beside the transports' connections. */
  default long memoryBytes() {
    return 0;
  }

  /**
   * The number of the next launch; for the launcher. Numbers grow, by more than one where
   * communicators share connections.
   */
  long nextLaunch();

  /**
   * True if the launch of a number and all before it have ended, as far as is known. If some were
   * captured into graphs, which may repeat this one: as {@link #isIdle}. Never waits.
   */
  boolean hasEnded(long launch);

  /** Returns a lower bound of the number of ended launches. Never waits. */
  long ended();

  /**
   * The highest number, from 1, that the first launch that has not ended can have. The same as one
   * more than {@link #ended} where kernels count; where they do not it is known less exactly.
   */
  default long firstNotEnded() {
    return ended() + 1;
  }

  /** The rank that its kernel has been waiting for, for a while; -1 if for none. */
  default int waitsFor() {
    return -1;
  }

  /**
   * Bytes of data that its kernels have sent to a rank over connections; -1 where the device does
   * not count them. What kernels copy straight between windows does not count. Never waits.
   */
  default long bytesSent(int peer) {
    return -1;
  }

  /**
   * True if some of its launches were captured into graphs, which may repeat them; it stays so.
   * Then the number of launches says nothing of how often operations run.
   */
  default boolean isInGraphs() {
    return false;
  }

  /**
   * Visits what was captured into graphs of this library, which know how often they are launched. A
   * graph that is over is visited once more, and then no longer. One visitor at a time.
   */
  default void visitCaptured(Consumer<CapturedLaunches> visitor) {}

  /**
   * Sets the sources of the explanation for a wait past its deadline and of its remedy. Both may be
   * empty.
   */
  default void explainDeadlines(Supplier<String> explanation, Supplier<String> remedy) {}

  /**
   * Sets the function that describes the calls of this rank and of another, given the other's
   * number. It is called when that rank's data belong to another call. The answer is a clause, or
   * empty. See {@link CallMismatch}.
   */
  default void explainMismatches(IntFunction<String> calls) {}

  /** Frees what it holds; the connections are their transports'. Nothing may be running. */
  @Override
  void close();
}
