package org.nccl4j.device.kernel;

import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.symmetric.WindowView;

/**
 * One operation that goes straight between the buffers of the ranks, without connections.
 *
 * @param operation which
 * @param way how
 * @param type type of the elements
 * @param op the operator; for operations that do not reduce, SUM, and not looked at
 * @param root of operations with one, else 0
 * @param count elements: as in the operation's call
 * @param send the window that the send buffer lies in; null where the way does not need one
 * @param recv the window that the receive buffer lies in; null likewise
 * @param blocks blocks of the kernel, the same on all ranks; 0 leaves it to the device
 * @param mostBlocks that the device may take then, likewise; 0 for as many as it has use for
 */
public record DirectWork(
    Operation operation,
    Way way,
    DataType type,
    RedOp op,
    int root,
    long count,
    WindowView send,
    WindowView recv,
    int blocks,
    int mostBlocks) {
  /** Checks that all ranks call the operation. */
  public DirectWork {
    if (!operation.isOfAllRanks()) {
      throw new IllegalArgumentException(operation + " does not go between windows");
    }
  }

  /** An operation of as many blocks as the device has use for, where it chooses their number. */
  public DirectWork(
      Operation operation,
      Way way,
      DataType type,
      RedOp op,
      int root,
      long count,
      WindowView send,
      WindowView recv,
      int blocks) {
    this(operation, way, type, op, root, count, send, recv, blocks, 0);
  }

  /** Of a number of blocks, as many as may be taken. */
  public int limit(int wanted) {
    return mostBlocks == 0 ? wanted : Math.min(mostBlocks, wanted);
  }

  /** What the words of this call carry; see {@link CallSignature}. */
  public int signature() {
    return CallSignature.of(this);
  }

  /** The ways, with the names that NCCL_ALGO takes; name and protocol tell them apart. */
  public enum Way {
    /**
     * Through lines of data and flags in the library's own window; needs no window of the user's.
     */
    LL("DirectLL", Protocol.LL),
    /** Between barriers, each rank takes or gives all that it needs or has. */
    ONE_SHOT("DirectOneShot", Protocol.SIMPLE),
    /** Between barriers, each rank combines a part of the data and gives it to all. */
    TWO_SHOT("DirectTwoShot", Protocol.SIMPLE),
    /**
     * Between barriers, by the device's copy engines. Between two ranks with a kernel beside them,
     * which also combines; then the send and receive buffers may not overlap.
     */
    COPY("CopyEngine", Protocol.SIMPLE),
    /** The same with all of a rank's copies in one call of the driver, and no barriers between. */
    COPY_BATCH("CopyEngineBatch", Protocol.SIMPLE),
    /** As that, and the barriers are memory operations of the streams: no kernel is launched. */
    COPY_STREAM("CopyEngineStream", Protocol.SIMPLE),
    /**
     * NVLS in place: between barriers, each head combines its part by loads from all ranks' windows
     * at once, and gives it to all by one store.
     */
    NVLS("NVLS", Protocol.SIMPLE),
    /**
     * As LL, and each line goes to all ranks by one store; needs no window of the user's, and the
     * library's own to be reached so.
     */
    NVLS_LL("NVLS", Protocol.LL);

    private final String label;
    private final Protocol protocol;

    Way(String label, Protocol protocol) {
      this.label = label;
      this.protocol = protocol;
    }

    /** The name in NCCL_ALGO, in tables and in JSON. */
    public String label() {
      return label;
    }

    /** What it counts as in NCCL_PROTO. */
    public Protocol protocol() {
      return protocol;
    }

    /** Whether it goes through lines in the library's own window. */
    public boolean isLines() {
      return this == LL || this == NVLS_LL;
    }

    /** Whether it reaches all ranks' windows by one access. */
    public boolean isMulticast() {
      return this == NVLS || this == NVLS_LL;
    }

    /** Whether the whole send buffer of every rank must lie in a window. */
    public boolean needsSend(Operation operation) {
      return switch (operation) {
        case REDUCE, REDUCE_SCATTER, ALL_REDUCE, GATHER -> !isLines();
        default -> false;
      };
    }

    /** Whether the whole receive buffer of every rank must lie in a window. */
    public boolean needsRecv(Operation operation) {
      return switch (operation) {
        case BROADCAST, ALL_GATHER, ALL_TO_ALL, SCATTER -> !isLines();
        case ALL_REDUCE -> this == TWO_SHOT || this == NVLS || this == COPY;
        case REDUCE_SCATTER -> this == COPY;
        default -> false;
      };
    }
  }
}
