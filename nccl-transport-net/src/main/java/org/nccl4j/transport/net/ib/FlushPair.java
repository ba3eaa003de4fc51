package org.nccl4j.transport.net.ib;

import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.RegistrationCache;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/** A queue pair that is connected to itself and reads bytes of a GPU's memory. */
final class FlushPair implements AutoCloseable {
  private static final int READ_BYTES = 1;

  private final QueuePair pair;
  private final Offheap sink = Offheap.onPage(Long.BYTES);
  private final RegistrationCache.Region sinkRegion;
  private final WorkRequests chain = new WorkRequests(1);

  /** At the port of some queues, whose completion queue it shares, for so many reads at once. */
  FlushPair(IbSettings settings, PortQueues at, int reads) {
    sinkRegion = at.device.cache().register(sink, sink.address(), sink.size());
    QueuePair made = null;
    boolean connected = false;
    try {
      made = new QueuePair(at.device, at.completions, reads, 1);
      made.connect(settings, at.local, at.describe(), made.number());
      connected = true;
    } finally {
      if (!connected) {
        if (made != null) {
          made.close();
        }
        sinkRegion.close();
      }
    }
    pair = made;
    at.watch(pair);
  }

  /** Begins to read. */
  void read(long address, int remoteKey, int id) {
    pair.post(
        chain
            .begin()
            .read(sink.address(), READ_BYTES, sinkRegion.localKey(), address, remoteKey, id));
  }

  @Override
  public void close() {
    pair.close();
    sinkRegion.close();
  }
}
