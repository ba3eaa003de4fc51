package org.nccl4j.transport.net.ib;

import java.lang.System.Logger;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/**
 * Makes what an adapter wrote into a GPU visible there: a queue pair that is connected to itself
 * reads a few bytes of the GPU's memory. PCI Express lets no read pass the writes before it, so
 * when it has ended they have arrived. Owned by the thread that has the connection's turn.
 */
final class Flushes implements AutoCloseable {
  private static final Logger LOG = DebugLog.of("NET");
  private static final int REQUESTS = ClearToSend.SLOTS;

  private final IbConnection owner;
  private final Request[] requests = new Request[REQUESTS];

  /** Null before the first flush at a port. */
  private FlushPair pair;

  /** A flush under way. */
  private final class Request implements NetRequest {
    private boolean used;
    private boolean ended;
    private IbMemory memory;
    private long offset;

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (!owner.turn.enter()) {
        return false;
      }
      try {
        if (!ended) {
          owner.progress();
        }
        used = !ended;
        return ended;
      } finally {
        owner.turn.leave();
      }
    }
  }

  Flushes(IbConnection owner) {
    this.owner = owner;
    for (int i = 0; i < REQUESTS; i++) {
      requests[i] = new Request();
    }
  }

  /** Begins a flush of what was written before. There are as many as there can be receives. */
  @HotPath
  NetRequest begin(IbMemory received, long offset) {
    for (int i = 0; i < REQUESTS; i++) {
      Request request = requests[i];
      if (!request.used) {
        request.used = true;
        request.ended = false;
        request.memory = received;
        request.offset = offset;
        if (owner.queues != null) {
          read(i);
        }
        return request;
      }
    }
    throw new InvalidUsageException(
        ErrorId.PLUGIN,
        "more than %d flushes are under way on one connection".formatted(REQUESTS),
        "test a flush until it has ended before its receive's slot is used again");
  }

  /** An error breaks the connection; other queue pairs then read again. */
  private void read(int index) {
    IbMemory memory = requests[index].memory;
    try {
      if (pair == null) {
        pair = new FlushPair(owner.settings, owner.queues, REQUESTS);
      }
      pair.read(memory.memory().address() + requests[index].offset, memory.remoteKey(), index);
    } catch (NcclException e) {
      owner.broke(e);
    }
  }

  void completed(int index) {
    requests[index].ended = true;
  }

  /** The queue pairs at the port have ended. */
  void stop() {
    if (pair != null) {
      try {
        pair.close();
      } catch (NcclException e) {
        LOG.log(Logger.Level.DEBUG, "a queue pair of flushes is left with an error: {0}", e);
      }
      pair = null;
    }
  }

  /** Reads again what has not been read, at another port. */
  void resume() {
    for (int i = 0; i < REQUESTS && owner.queues != null; i++) {
      if (requests[i].used && !requests[i].ended) {
        read(i);
      }
    }
  }

  @Override
  public void close() {
    stop();
  }
}
