package org.nccl4j.api.group;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Func;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.KernelCommunicator;

/**
 * Compares what the ranks call, before each collective: every rank's call is gathered by all, in
 * the same stream, and the first that differs from rank 0's ends the communicator with an error
 * that names both. For finding mistakes (NCCL_CHECK_MODE=DEBUG_GLOBAL): it costs an all-gather a
 * call.
 */
public final class SignatureCheck {
  private static final int LONGS = 5;

  private final KernelCommunicator kernels;
  private final Planner planner;
  private final Launcher launcher;
  private final Device device;
  private final int nRanks;

  /** A check of one rank's calls. */
  public SignatureCheck(
      KernelCommunicator kernels, Planner planner, Launcher launcher, Device device, int nRanks) {
    this.kernels = kernels;
    this.planner = planner;
    this.launcher = launcher;
    this.device = device;
    this.nRanks = nRanks;
  }

  void launch(Func func, long count, DataType type, RedOp op, int root, DeviceStream stream) {
    if (func == Func.SEND || func == Func.RECV) {
      return;
    }
    DeviceMemory mine = device.allocate(LONGS * 8L);
    DeviceMemory all = device.allocate((long) nRanks * LONGS * 8);
    ByteBuffer call = ByteBuffer.allocate(LONGS * 8).order(ByteOrder.nativeOrder());
    call.putLong(func.ordinal()).putLong(count).putLong(type.ordinal());
    call.putLong(op.ordinal()).putLong(root);
    mine.write(0, call.flip());
    launcher.launch(
        planner.plan(Func.ALL_GATHER, LONGS, DataType.INT64, RedOp.SUM, 0), mine, all, stream);
    stream.launchHostFunction(() -> compare(mine, all));
  }

  private void compare(DeviceMemory mine, DeviceMemory all) {
    ByteBuffer calls = ByteBuffer.allocate((int) all.size()).order(ByteOrder.nativeOrder());
    all.read(0, calls);
    mine.close();
    all.close();
    for (int rank = 1; rank < nRanks; rank++) {
      if (!describe(calls, rank).equals(describe(calls, 0))) {
        InvalidUsageException mismatch =
            new InvalidUsageException(
                "the ranks call different operations: rank 0 calls %s, rank %d calls %s"
                    .formatted(describe(calls, 0), rank, describe(calls, rank)),
                "make the same calls in the same order on all ranks");
        kernels.abort(mismatch);
        throw mismatch;
      }
    }
  }

  private static String describe(ByteBuffer calls, int rank) {
    int at = rank * LONGS * 8;
    return "%s(count=%d, type=%s, op=%s, root=%d)"
        .formatted(
            Func.values()[(int) calls.getLong(at)].label(),
            calls.getLong(at + 8),
            DataType.values()[(int) calls.getLong(at + 16)].label(),
            RedOp.values()[(int) calls.getLong(at + 24)].label(),
            calls.getLong(at + 32));
  }
}
