package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Protocol;

/**
 * The sizes of a connection's slots on a GPU. A rank holds for all its connections about 60 MiB up
 * to four ranks and 120 MiB up to 64: with more of them the slots of each become smaller. Those of
 * Simple stay as they are up to eight ranks, since half of them carry a ring at 300 GB/s instead of
 * 360.
 */
public final class ConnectionSizes {
  private static final int CHANNELS = ConnectionLayout.CHANNELS;
  private static final int LL = 4 << 10;
  private static final int LL128 = 31 * 128; // with 32 lines four ranks would take 2 MiB more
  private static final int SIMPLE = 32 << 10;
  private static final int LEAST = 512;
  private static final int PAT_PIECE = 16; // PatTrees::chunk
  private static final int STEP = 128;
  private static final int LINES_BYTES = 512; // four lines
  private static final int LINES_DATA = 480; // kGroup
  private static final int LINES_WARPS = 16; // kWarps

  private ConnectionSizes() {}

  public static ConnectionLayout layout(int nRanks) {
    int grow = nRanks == 2 ? 2 : 1;
    int shrink = 1;
    while (4 * shrink < nRanks) {
      shrink *= 2;
    }
    int shrinkSimple = Math.max(1, shrink / 2);
    return new ConnectionLayout(
        CHANNELS * Math.max(LEAST, grow * LL / shrink),
        CHANNELS * Math.max(LEAST, grow * LL128 / shrink / 128 * 128), // lines must not straddle
        CHANNELS * Math.max(LEAST, grow * SIMPLE / shrinkSimple),
        /* smallBytes= */ 0);
  }

  /** Most bytes of data of one step of one channel. */
  static int sliceBytes(ConnectionLayout layout, Protocol protocol) {
    return switch (protocol) {
      case LL -> layout.llSlotBytes() / CHANNELS / 2;
      case LL128 -> layout.ll128SlotBytes() / CHANNELS / 128 * 120 / 128 * 128;
      case SIMPLE -> layout.simpleSlotBytes() / CHANNELS;
    };
  }

  /**
   * Most bytes of each piece in a step of PAT, which has one of each tree of half of the ranks; 0
   * if a slot has no room for so many.
   */
  public static int patPiece(ConnectionLayout layout, int nRanks) {
    return sliceBytes(layout, Protocol.SIMPLE) / patPieces(nRanks) & -PAT_PIECE;
  }

  /** Least bytes of data of a step of PAT. */
  static int leastPatSlice(int nRanks) {
    return (PAT_PIECE * patPieces(nRanks) + STEP - 1) / STEP * STEP;
  }

  private static int patPieces(int nRanks) {
    return Math.max(1, nRanks / 2);
  }

  /** Least bytes of data of a full step of one channel of a send; lines.cuh for LL128. */
  static int messageSliceBytes(ConnectionLayout layout, Protocol protocol) {
    return protocol == Protocol.LL128
        ? Math.min(layout.ll128SlotBytes() / CHANNELS / LINES_BYTES, LINES_WARPS) * LINES_DATA
        : sliceBytes(layout, protocol);
  }

  /** Throws unless the kernels can work with a layout. */
  public static void check(ConnectionLayout layout) {
    for (Protocol protocol : Protocol.values()) {
      if (sliceBytes(layout, protocol) < 128) {
        throw new InvalidArgumentException(
            ErrorId.LAYOUT,
            "a connection layout leaves a channel less than 128 bytes in " + protocol.label(),
            "use the layout that CudaDevice.connectionLayout gives");
      }
    }
  }
}
