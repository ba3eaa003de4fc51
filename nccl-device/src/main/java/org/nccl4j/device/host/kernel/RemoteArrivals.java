package org.nccl4j.device.host.kernel;

import java.nio.ByteBuffer;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.Words;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.RemoteMessage;
import org.nccl4j.device.kernel.RemoteSpace;

/**
 * Puts the messages of {@link RemotePuts} into this rank's windows and counts their signals. Owned
 * by the thread that gives the communicator's proxy its turn.
 */
final class RemoteArrivals implements RemoteSpace.Arrivals {
  private final int rank;
  private final RecvEnd[] recvs;
  private final RemotePuts puts;
  private final RemoteSpace.Windows windows;
  private final HostMemory signals;
  private final int room;
  private final long[] signalled;

  RemoteArrivals(
      int rank, RemoteSpace space, ConnectionLayout layout, HostMemory signals, RemotePuts puts) {
    this.rank = rank;
    this.puts = puts;
    this.windows = space.windows();
    this.signals = signals;
    this.room = layout.simpleSlotBytes() - RemoteMessage.HEADER;
    this.recvs = new RecvEnd[space.recvs().size()];
    for (int peer = 0; peer < recvs.length; peer++) {
      Connection from = space.recvs().get(peer);
      recvs[peer] = from == null ? null : new RecvEnd(peer, from, layout);
    }
    this.signalled = new long[recvs.length];
  }

  @Override
  @HotPath
  public int doWork() {
    int done = 0;
    for (RecvEnd end : recvs) {
      if (end != null && end.hasData()) {
        done += take(end);
      }
    }
    return done;
  }

  private int take(RecvEnd end) {
    HostMemory memory = end.memory();
    long slot = end.simpleSlot();
    ByteBuffer words = memory.window(slot);
    int at = memory.index(slot);
    long window = words.getLong(at);
    long offset = words.getLong(at + RemoteMessage.OFFSET);
    int bytes = words.getInt(at + RemoteMessage.BYTES);
    int signal = words.getInt(at + RemoteMessage.SIGNALS);
    if (bytes != 0 && windows.isToCome(window)) {
      return 0;
    }
    if (bytes != 0) {
      Copies.copy(
          memory,
          slot + RemoteMessage.HEADER,
          target(end.peer, window, offset, bytes),
          offset,
          bytes);
    }
    end.release();
    if (signal != 0) {
      signalled[end.peer] += signal;
      Words.storeRelease(signals, RemotePuts.signal(end.peer), signalled[end.peer]);
    }
    return 1;
  }

  private HostMemory target(int peer, long window, long offset, int bytes) {
    DeviceMemory target = windows.memory(window);
    if (bytes < 0
        || bytes > room
        || target == null
        || offset < 0
        || offset > target.size() - bytes) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "rank %d puts %d bytes at byte %d of window %d of rank %d, which %s"
              .formatted(
                  peer,
                  bytes,
                  offset,
                  window,
                  rank,
                  target == null ? "is not registered there" : "has " + target.size() + " bytes"),
          "deregister a window after the last put into it, on all ranks in the same order");
    }
    return HostMemory.of(target);
  }

  @Override
  public long sent(int peer) {
    return puts.sent(peer);
  }

  @Override
  public long arrived(int peer) {
    return recvs[peer] == null ? 0 : Words.loadAcquire(recvs[peer].credit, ConnectionLayout.HEAD);
  }
}
