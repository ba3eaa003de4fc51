package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.symmetric.WindowView;

/**
 * A device's kernels that bring tokens to the ranks of their experts and the experts' outputs back,
 * between windows. All ranks of the communicator are in the team.
 */
public interface ExpertKernels {
  /**
   * Loads the kernels, and returns the blocks of the least time that this device has room for at
   * once; 0 if it has no kernels for the sizes.
   */
  int mostBlocks(ExpertSizes sizes);

  /** Bytes of the window that the ranks write into. */
  long windowBytes(ExpertSizes sizes, int blocks);

  /** Bytes of a rank's own memory. */
  long ownBytes(ExpertSizes sizes, int blocks);

  /** Prepares the kernels of one exchange between windows. */
  Plans prepare(ExpertSizes sizes, Form form, Memory memory);

  /**
   * The form of an exchange's kernels, the same on all ranks.
   *
   * @param blocks of each kernel; 0 for no kernels
   * @param wholeLines true if data may go in lines: the links between the ranks keep those of the
   *     kernels whole, and NCCL_PROTO allows them
   * @param bandwidth GB/s that the links take of what a rank sends to the others; 0 if not known
   */
  record Form(int blocks, boolean wholeLines, double bandwidth) {
    /** The form without kernels. */
    public static final Form NONE = new Form(0, false, 0);

    /** Returns the form that suits both of two ranks. */
    public Form and(Form other) {
      return new Form(
          Math.min(blocks, other.blocks),
          wholeLines && other.wholeLines,
          Math.min(bandwidth, other.bandwidth));
    }
  }

  /**
   * Memory of an exchange on one rank.
   *
   * @param window of {@link #windowBytes}; zeros before any rank launches
   * @param own of {@link #ownBytes}; zeros
   * @param received rows of wireBytes by local expert, source rank, token and place k
   * @param scales those of the received rows
   * @param counts int32 [localExperts][nRanks]: the rows of each expert from each rank
   * @param offsets int32 [localExperts + 1]: each expert's first row, then the number of rows
   */
  record Memory(
      WindowView window,
      DeviceMemory own,
      DeviceMemory received,
      DeviceMemory scales,
      DeviceMemory counts,
      DeviceMemory offsets) {}

  /**
   * The plans of an exchange. A plan is launched before the next is asked for. By the thread that
   * prepares and launches.
   */
  interface Plans {
    /**
     * The dispatch of some tokens, which are the launch's send buffer.
     *
     * @param experts int32 [count][topK], -1 for none
     * @param weights float32 [count][topK]
     * @param whole false for the sending part alone, without waits for other ranks
     */
    KernelPlan dispatch(DeviceMemory experts, DeviceMemory weights, int count, boolean whole);

    /** The receiving part of the last dispatch, which has only sent. */
    KernelPlan receiveDispatch();

    /**
     * The combine of the last dispatch. The outputs are the launch's send buffer, the result its
     * receive buffer.
     *
     * @param rows that the outputs have room for
     * @param results rows that the result has room for; of no matter for the sending part alone
     * @param whole false for the sending part alone
     */
    KernelPlan combine(long rows, long results, boolean whole);

    /**
     * The receiving part of the last combine, which has only sent. The result is the launch's
     * receive buffer.
     *
     * @param results rows that it has room for
     */
    KernelPlan receiveCombine(long results);

    /** Gives back what the plans hold outside the heap. */
    void discard();
  }

  /**
   * The steps of an exchange by sends and receives, on this rank's memory alone. Lists are int32. A
   * plan is launched before the next is asked for. By the thread that prepares and launches.
   */
  interface Steps {
    /**
     * Tokens, the launch's send buffer, in the form they travel in: rows of travelBytes in its
     * receive buffer.
     *
     * @param tokens [count] the token of each
     * @param targets [count] the row to write for each
     */
    KernelPlan pack(DeviceMemory tokens, DeviceMemory targets, long count);

    /**
     * Rows of travelBytes to other rows of the same memory, the launch's buffers.
     *
     * @param from [count] the row to read for each
     * @param targets [count] the row to write for each
     */
    KernelPlan forward(DeviceMemory from, DeviceMemory targets, long count);

    /**
     * Received rows, the launch's receive buffer, of rows of travelBytes, its send buffer.
     *
     * @param from [count] the row to read for each
     * @param scales of the received rows
     */
    KernelPlan place(DeviceMemory from, DeviceMemory scales, long count);

    /**
     * Outputs, the launch's send buffer, one after the other, to rows of its receive buffer.
     *
     * @param targets [count] the row to write for each
     */
    KernelPlan gather(DeviceMemory targets, long count);

    /**
     * Sums of outputs, the launch's send buffer; the result is its receive buffer.
     *
     * @param places [tokens][topK] the row of each output, -1 for none
     * @param weights float32 [tokens][topK]
     */
    KernelPlan add(DeviceMemory places, DeviceMemory weights, long tokens);

    /** Gives back what the plans hold outside the heap. */
    void discard();
  }
}
