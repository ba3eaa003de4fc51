package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.symmetric.WindowView;

/**
 * A device's kernels that exchange elements by counts in device memory, between windows. All ranks
 * of the communicator are in the team.
 */
public interface RaggedKernels {
  /**
   * Sizes of an exchange, the same on all ranks.
   *
   * @param nRanks of the communicator
   * @param elementBytes bytes of an element
   * @param maxCount the most elements from one rank to one rank
   * @param maxReceived the most elements from all ranks to one rank
   * @param wide true for counts and offsets of int64, false for int32
   */
  record Sizes(int nRanks, int elementBytes, long maxCount, long maxReceived, boolean wide) {
    /** Bytes of a count and of an offset. */
    public int countBytes() {
      return wide ? Long.BYTES : Integer.BYTES;
    }

    /** Bytes of the most elements that a rank receives. */
    public long receivedBytes() {
      return maxReceived * elementBytes;
    }
  }

  /**
   * Memory of an exchange on one rank.
   *
   * @param window begins with {@link #controlBytes}; zeros before any rank launches
   * @param place where the received elements lie, in bytes from the begin of the window, also in
   *     another window of the flat range; the same on all ranks
   * @param received they as the user has them
   * @param own of {@link #ownBytes}; zeros
   * @param counts [nRanks]: elements received from each rank
   * @param offsets [nRanks + 1]: the first element from each rank, then all elements
   */
  record Memory(
      WindowView window,
      long place,
      DeviceMemory received,
      DeviceMemory own,
      DeviceMemory counts,
      DeviceMemory offsets) {}

  /**
   * The way in which the copies of a reduce-scatter's part are combined.
   *
   * @param type of the numbers; UINT8 for structs
   * @param op null for a function of the user
   * @param function null for an operator of RedOp
   * @param mostBlocks that the kernel may have on a GPU; 0 for no limit
   */
  record Combination(DataType type, RedOp op, ReductionOperator function, int mostBlocks) {
    /** Bytes that are combined at once: of a number, or of a struct. */
    public int valueBytes() {
      return function == null || function.elementBytes() == 0
          ? type.bytes()
          : function.elementBytes();
    }
  }

  /**
   * Loads the kernels, and returns the blocks of the least time that this device has room for at
   * once; 0 if it has no kernels for the sizes.
   */
  int mostBlocks(Sizes sizes);

  /**
   * Bytes of a window by which the kernels of all ranks exchange counts and elements in lines, and
   * meet.
   */
  long controlBytes(Sizes sizes, Form form);

  /** Bytes of a rank's own memory. */
  long ownBytes(Sizes sizes, Form form);

  /**
   * Prepares the kernel of one exchange.
   *
   * @param form of the kernel, the same on all ranks; with lines if elements may go in lines
   */
  Plan prepare(Sizes sizes, Form form, Memory memory);

  /**
   * Prepares the kernel that combines the copies of this rank's part, which {@link Plan#scatter}
   * has brought, in the order of the ranks. Send and receive buffer of its launch are the received
   * elements. A user's function is compiled and loaded then.
   *
   * @throws org.nccl4j.device.InvalidUsageException if this device has no arithmetic of the type,
   *     or the function does not compile
   */
  KernelPlan prepare(Sizes sizes, Memory memory, Combination how);

  /**
   * The plan of an exchange. What a method returns is launched before the next is called. By the
   * thread that prepares and launches.
   */
  interface Plan {
    /**
     * An all-to-all of the elements in the launch's send buffer, by rank and without gaps.
     *
     * @param counts [nRanks]: elements for each rank
     * @param room elements of the send buffer
     */
    KernelPlan allToAll(DeviceMemory counts, long room);

    /**
     * An all-gather of the elements in the launch's send buffer.
     *
     * @param count their number, in device memory
     * @param room elements of the send buffer
     */
    KernelPlan allGather(DeviceMemory count, long room);

    /**
     * The all-to-all of a reduce-scatter: it brings the copies of this rank's part. They lie in the
     * order of the ranks, one behind the other. All ranks must have the same counts.
     *
     * @param counts [nRanks]: elements of each rank's part
     * @param room elements of the send buffer
     * @param signature of the call, as {@link CallSignature} makes it
     */
    KernelPlan scatter(DeviceMemory counts, long room, int signature);

    /** Gives back what the plan holds outside the heap. */
    void discard();
  }
}
