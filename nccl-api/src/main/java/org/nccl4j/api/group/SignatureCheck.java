package org.nccl4j.api.group;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Func;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Protocol;

/**
 * Compares what the ranks call, before each collective: every rank's call is gathered by all, in
 * the same stream, and the first that differs from rank 0's ends the communicator with an error
 * that names both. For finding mistakes (NCCL_CHECK_MODE=DEBUG_GLOBAL): it costs an all-gather a
 * call.
 *
 * <p>The gather is done in one way whatever the communicator, so that where communicators share
 * connections, calls of two of them in different order meet, and are told apart by their names.
 */
public final class SignatureCheck {
  private static final int LONGS = 5;
  private static final int NAME_BYTES = 64;
  private static final int BYTES = LONGS * 8 + NAME_BYTES;

  private final String name;
  private final KernelCommunicator kernels;
  private final Launcher launcher;
  private final Device device;
  private final int nRanks;
  private KernelPlan gather;

  /** A check of one rank's calls. */
  public SignatureCheck(
      String name, KernelCommunicator kernels, Launcher launcher, Device device, int nRanks) {
    this.name = name;
    this.kernels = kernels;
    this.launcher = launcher;
    this.device = device;
    this.nRanks = nRanks;
  }

  void launch(Func func, long count, DataType type, RedOp op, int root, DeviceStream stream) {
    if (func == Func.SEND || func == Func.RECV || nRanks == 1) {
      return;
    }
    if (gather == null) {
      gather =
          kernels.prepare(
              new CollectiveWork(
                  Collective.ALL_GATHER,
                  Algorithm.ONE_SHOT,
                  Protocol.SIMPLE,
                  DataType.INT8,
                  RedOp.SUM,
                  0,
                  BYTES,
                  1,
                  BYTES));
    }
    DeviceMemory mine = device.allocate(BYTES);
    DeviceMemory all = device.allocate((long) nRanks * BYTES);
    ByteBuffer call = ByteBuffer.allocate(BYTES).order(ByteOrder.nativeOrder());
    call.putLong(func.ordinal()).putLong(count).putLong(type.ordinal());
    call.putLong(op.ordinal()).putLong(root);
    byte[] letters = name.getBytes(StandardCharsets.UTF_8);
    call.put(Arrays.copyOfRange(letters, Math.max(0, letters.length - NAME_BYTES), letters.length));
    mine.write(0, call.clear());
    launcher.launch(gather, mine, all, stream);
    stream.launchHostFunction(() -> compare(mine, all));
  }

  private void compare(DeviceMemory mine, DeviceMemory all) {
    ByteBuffer calls = ByteBuffer.allocate((int) all.size()).order(ByteOrder.nativeOrder());
    all.read(0, calls);
    mine.close();
    all.close();
    if (kernels.failure() != null) {
      return;
    }
    for (int rank = 1; rank < nRanks; rank++) {
      if (!describe(calls, rank).equals(describe(calls, 0))
          || !communicator(calls, rank).equals(communicator(calls, 0))) {
        NcclException mismatch = mismatch(calls, rank);
        kernels.abort(mismatch);
        throw mismatch;
      }
    }
  }

  private NcclException mismatch(ByteBuffer calls, int rank) {
    String first = describe(calls, 0);
    String other = describe(calls, rank);
    if (!communicator(calls, 0).equals(communicator(calls, rank))) {
      return new OrderMismatchException(
          "the ranks use communicators that share connections in different order: in communicator"
              + " %s rank 0 calls %s of communicator %s where rank %d calls %s of communicator %s"
                  .formatted(
                      name, first, communicator(calls, 0), rank, other, communicator(calls, rank)),
          "make the calls in the same order on all ranks, or split with connections of their own"
              + " (CommunicatorConfig.withSplitShare(false))");
    }
    return new InvalidUsageException(
        ErrorId.CALLS_DIFFER,
        "the ranks call different operations: rank 0 calls %s, rank %d calls %s"
            .formatted(first, rank, other),
        "make the same calls in the same order on all ranks");
  }

  private static String communicator(ByteBuffer calls, int rank) {
    byte[] letters = new byte[NAME_BYTES];
    calls.get(rank * BYTES + LONGS * 8, letters);
    return new String(letters, StandardCharsets.UTF_8).trim();
  }

  private static String describe(ByteBuffer calls, int rank) {
    int at = rank * BYTES;
    return "%s(count=%d, type=%s, op=%s, root=%d)"
        .formatted(
            Func.values()[(int) calls.getLong(at)].label(),
            calls.getLong(at + 8),
            DataType.values()[(int) calls.getLong(at + 16)].label(),
            RedOp.values()[(int) calls.getLong(at + 24)].label(),
            calls.getLong(at + 32));
  }
}
