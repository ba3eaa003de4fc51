package org.nccl4j.transport.net.ib;

import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/**
 * Makes what adapters wrote into a GPU visible there: at each port a queue pair that is connected
 * to itself reads a few bytes of the GPU's memory. PCI Express lets no read pass the writes before
 * it, so when it has ended they have arrived. Owned by the thread that has the connection's turn.
 */
final class Flushes implements AutoCloseable {
  private static final int REQUESTS = ClearToSend.SLOTS;

  private final IbConnection owner;
  private final Request[] requests = new Request[REQUESTS];

  /** One at each port; null before the first flush at a NIC. */
  private FlushPair[] pairs;

  /** A flush under way. */
  private final class Request implements NetRequest {
    private boolean used;
    private int remaining;
    private IbMemory memory;
    private long offset;

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (!owner.turn.enter()) {
        return false;
      }
      try {
        if (remaining > 0) {
          owner.progress();
        }
        used = remaining > 0;
        return !used;
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
        request.memory = received;
        request.offset = offset;
        read(i);
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
    Request request = requests[index];
    request.remaining = 1;
    if (owner.queues == null) {
      return;
    }
    long address = request.memory.memory().address() + request.offset;
    try {
      if (pairs == null) {
        begin(owner.queues.ports);
      }
      request.remaining = pairs.length;
      for (int port = 0; port < pairs.length; port++) {
        pairs[port].read(address, request.memory.remoteKey(port), index);
      }
    } catch (NcclException e) {
      owner.broke(e);
    }
  }

  private void begin(PortQueues[] ports) {
    pairs = new FlushPair[ports.length];
    for (int port = 0; port < pairs.length; port++) {
      pairs[port] = new FlushPair(owner.settings, ports[port], REQUESTS);
    }
  }

  void completed(int index) {
    requests[index].remaining--;
  }

  /** The queue pairs at the NIC have ended. */
  void stop() {
    for (int port = 0; pairs != null && port < pairs.length; port++) {
      if (pairs[port] != null) {
        pairs[port].close();
      }
    }
    pairs = null;
  }

  /** Reads again what has not been read, at another NIC. */
  void resume() {
    for (int i = 0; i < REQUESTS && owner.queues != null; i++) {
      if (requests[i].used && requests[i].remaining > 0) {
        read(i);
      }
    }
  }

  @Override
  public void close() {
    stop();
  }
}
