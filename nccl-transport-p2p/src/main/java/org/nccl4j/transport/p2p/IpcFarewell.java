package org.nccl4j.transport.p2p;

import java.lang.System.Logger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Patience;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.FdMailbox;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.shm.ReceivedFd;

/**
 * How memory is freed that ranks of other processes have opened by CUDA IPC handles: the driver
 * wants them all to be closed before. Each rank closes what it has opened, tells the owners by a
 * message to their mailbox, and frees its own memory when all others have told it the same. A
 * mailbox that is gone is that of a rank that is through with it. Used by one thread at a time.
 */
final class IpcFarewell {
  private static final Logger LOG = DebugLog.of("P2P");
  private static final int KEY_BYTES = 8;
  private static final int MARK = 0x656e6473; // "ends", which the key of a descriptor has not
  private static final long POLL_NANOS = 1_000_000;

  private final FdMailbox mailbox;
  private final int rank;
  private final Map<Integer, Path> untold;
  private final Set<Integer> awaited = new HashSet<>();
  private final Map<Integer, Path> boxes;

  /**
   * One rank's, when it has closed all that it had opened.
   *
   * @param mailbox where others tell it; closed at the end
   * @param owners the mailboxes of ranks whose memory it had opened
   * @param users the mailboxes of ranks that opened its memory, less those that have told it
   */
  IpcFarewell(FdMailbox mailbox, int rank, Map<Integer, Path> owners, Map<Integer, Path> users) {
    this.mailbox = mailbox;
    this.rank = rank;
    this.untold = new HashMap<>(owners);
    this.boxes = Map.copyOf(users);
    awaited.addAll(users.keySet());
  }

  /** Who says by a message that it has closed what it had opened; empty for other messages. */
  static Optional<Integer> sender(byte[] key) {
    ByteBuffer words = ByteBuffer.wrap(key);
    return key.length == KEY_BYTES && words.getInt(4) == MARK
        ? Optional.of(words.getInt(0))
        : Optional.empty();
  }

  /**
   * Tells and listens, and then frees; if others take longer than it may wait here, on a thread of
   * its own, at the latest when its patience ends.
   */
  void end(Duration here, Duration patience, Runnable free) {
    long start = System.nanoTime();
    if (isOver(start + Patience.nanos(here))) {
      free(free);
      return;
    }
    Thread thread =
        new Thread(
            () -> {
              if (!isOver(start + Patience.nanos(patience))) {
                LOG.log(
                    Logger.Level.WARNING,
                    "rank {0} frees memory that ranks {1} have not closed after {2}; close their"
                        + " communicators",
                    rank,
                    awaited,
                    patience);
              }
              free(free);
            },
            "nccl4j-ipc-close-" + rank);
    thread.setDaemon(true);
    thread.start();
  }

  private void free(Runnable free) {
    try {
      free.run();
    } catch (CudaException e) {
      LOG.log(Logger.Level.DEBUG, "the driver has gone before the memory: {0}", e.problem());
    } finally {
      mailbox.close();
    }
  }

  /** Whether all is said, by a time. */
  private boolean isOver(long endNanos) {
    while (true) {
      untold.entrySet().removeIf(owner -> isTold(owner.getValue()));
      listen();
      if (untold.isEmpty() && awaited.isEmpty()) {
        return true;
      }
      if (System.nanoTime() - endNanos >= 0) {
        return false;
      }
      Patience.sleep(POLL_NANOS);
    }
  }

  /** Whether an owner has been told, or is not there to be told. */
  private boolean isTold(Path owner) {
    try {
      byte[] key = ByteBuffer.allocate(KEY_BYTES).putInt(rank).putInt(MARK).array();
      return mailbox.tell(owner, key);
    } catch (SystemErrorException e) {
      LOG.log(Logger.Level.DEBUG, "an owner of memory has gone: {0}", e.problem());
      return true;
    }
  }

  private void listen() {
    // Before the messages: who removes its mailbox has sent its message before.
    Set<Integer> gone = new HashSet<>(awaited);
    gone.removeIf(user -> Files.exists(boxes.get(user)));
    Optional<ReceivedFd> received = mailbox.poll();
    while (received.isPresent()) {
      new OwnedFd(received.get().fd()).close();
      sender(received.get().key()).ifPresent(awaited::remove);
      received = mailbox.poll();
    }
    awaited.removeAll(gone);
  }
}
