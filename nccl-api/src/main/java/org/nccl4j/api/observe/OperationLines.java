package org.nccl4j.api.observe;

import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceStream;

/** Logs a line for each operation, where NCCL_DEBUG_SUBSYS has COLL. */
public final class OperationLines implements OperationHook {
  private static final System.Logger LOG = DebugLog.of("COLL");

  private final String communicator;
  private final int rank;
  private long number;

  /** Creates the lines of one rank. */
  public OperationLines(String communicator, int rank) {
    this.communicator = communicator;
    this.rank = rank;
  }

  @Override
  public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
    number++;
    LOG.log(
        System.Logger.Level.INFO,
        "%s: operation %d of rank %d of communicator %s, %d %s, root or peer %d"
            .formatted(what, number, rank, communicator, count, type.label(), root));
  }
}
