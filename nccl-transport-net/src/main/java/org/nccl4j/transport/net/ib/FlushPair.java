package org.nccl4j.transport.net.ib;

import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.transport.net.ib.device.RegistrationCache;
import org.nccl4j.transport.net.ib.verbs.NativeBlock;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/**
 * Makes what an adapter wrote into a GPU visible there: a queue pair that is connected to itself
 * reads a few bytes of the GPU's memory. PCI Express lets no read pass the writes before it, so
 * when it has ended they have arrived.
 */
final class FlushPair implements AutoCloseable {
  private static final int REQUESTS = ClearToSend.SLOTS;
  private static final int READ_BYTES = 1;

  private final IbConnection owner;
  private final QueuePair pair;
  private final NativeBlock sink = new NativeBlock(Long.BYTES);
  private final RegistrationCache.Region sinkRegion;
  private final WorkRequests chain = new WorkRequests(1);
  private final Request[] requests = new Request[REQUESTS];

  /** A flush under way. */
  private final class Request implements NetRequest {
    private boolean used;
    private boolean ended;

    @Override
    @HotPath
    public boolean test(int[] sizes) {
      if (!ended) {
        owner.progress();
      }
      if (ended) {
        used = false;
      }
      return ended;
    }
  }

  FlushPair(IbConnection owner) {
    this.owner = owner;
    for (int i = 0; i < REQUESTS; i++) {
      requests[i] = new Request();
    }
    sinkRegion = owner.device.cache().register(sink.address(), sink.size());
    QueuePair made = null;
    boolean connected = false;
    try {
      made = new QueuePair(owner.device, owner.queue, REQUESTS, 1);
      RemoteQpInfo itself =
          new RemoteQpInfo(
              0,
              owner.local.port().lid(),
              owner.local.port().mtu(),
              false,
              owner.local.port().ethernet(),
              owner.local.gid().address(),
              0,
              0,
              owner.local.port().name(),
              new int[] {made.number()});
      made.connect(owner.settings, owner.local, itself, made.number());
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
    owner.watch(pair);
  }

  /** Begins a flush of what was written before. There are as many as there can be receives. */
  @HotPath
  NetRequest begin(long address, int remoteKey) {
    for (int i = 0; i < REQUESTS; i++) {
      if (!requests[i].used) {
        requests[i].used = true;
        requests[i].ended = false;
        pair.post(
            chain
                .begin()
                .read(sink.address(), READ_BYTES, sinkRegion.localKey(), address, remoteKey, i));
        return requests[i];
      }
    }
    throw new InvalidUsageException(
        ErrorId.PLUGIN,
        "more than %d flushes are under way on one connection".formatted(REQUESTS),
        "test a flush until it has ended before its receive's slot is used again");
  }

  void completed(int index) {
    requests[index].ended = true;
  }

  @Override
  public void close() {
    pair.close();
    sinkRegion.close();
  }
}
