package org.nccl4j.transport.p2p;

import java.lang.System.Logger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.nccl4j.api.wire.FdExchange;
import org.nccl4j.api.wire.TeardownBarrier;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DebugLog;

/**
 * Frees memory that ranks of other processes have opened by CUDA IPC handles: the driver wants them
 * all to be closed before. Each rank closes what it has opened, tells the owners so, and frees its
 * own memory when all others have told it the same. A rank without a mailbox has finished. Used by
 * one thread at a time.
 */
final class CudaIpcTeardown implements TeardownBarrier.Shared {
  private static final Logger LOG = DebugLog.of("P2P");

  private final FdExchange descriptors;
  private final int rank;
  private final Map<Integer, String> untold;
  private final Map<Integer, String> users;
  private final Set<Integer> awaited;
  private final Runnable free;

  /**
   * One rank's, when it has closed all that it had opened.
   *
   * @param descriptors where others tell it; closed at the end
   * @param owners the mailboxes of ranks whose memory it had opened
   * @param users the mailboxes of ranks that opened its memory
   */
  CudaIpcTeardown(
      FdExchange descriptors,
      int rank,
      Map<Integer, String> owners,
      Map<Integer, String> users,
      Runnable free) {
    this.descriptors = descriptors;
    this.rank = rank;
    this.untold = new HashMap<>(owners);
    this.users = Map.copyOf(users);
    this.awaited = new HashSet<>(users.keySet());
    this.free = free;
  }

  @Override
  public TeardownBarrier.Look look() {
    untold.entrySet().removeIf(owner -> descriptors.tellClosed(owner.getValue(), rank));
    // Before the messages: a rank that removes its mailbox has sent its message before.
    Set<Integer> gone = new HashSet<>(awaited);
    gone.removeIf(user -> Files.exists(Path.of(users.get(user))));
    awaited.removeAll(descriptors.closed());
    awaited.removeAll(gone);
    return untold.isEmpty() && awaited.isEmpty()
        ? TeardownBarrier.Look.OVER
        : TeardownBarrier.Look.IDLE;
  }

  @Override
  public void free(boolean over) {
    if (!over) {
      LOG.log(
          Logger.Level.WARNING,
          "rank {0} frees memory that ranks {1} have not closed in time; close their communicators",
          rank,
          awaited);
    }
    try {
      free.run();
    } catch (CudaException e) {
      LOG.log(
          Logger.Level.DEBUG,
          "the driver was shut down before the memory was freed: {0}",
          e.problem());
    } finally {
      descriptors.close();
    }
  }
}
