package org.nccl4j.transport.net.proxy;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.HotPath;
import org.nccl4j.transport.net.memory.ProxyChannel;

/**
 * Makes what a network card wrote into a GPU's memory, in slots or in users' buffers, visible there
 * before a kernel or stream is told of it: the card says that data have arrived in the host's
 * memory, by a way on which it may overtake them. Owned by the thread that gives the proxy its
 * turn.
 */
final class GdrFlush {
  private final NetReceiver receiver;
  private final ProxyChannel channel;
  private final StepEvents events;
  private final NetRequest[] requests;
  private final NetMemory[] memories = new NetMemory[1];
  private final long[] offsets = new long[1];
  private final int[] sizes = new int[1];
  private long flushed;

  GdrFlush(NetReceiver receiver, ProxyChannel channel, StepEvents events) {
    this.receiver = receiver;
    this.channel = channel;
    this.events = events;
    this.requests = new NetRequest[channel.slots()];
  }

  /** A step has been received in some memory. One that is not begun needs no flush. */
  @HotPath
  void begin(long step, NetMemory memory, long offset, int bytes) {
    memories[0] = memory;
    offsets[0] = offset;
    sizes[0] = bytes;
    requests[channel.slot(step)] = receiver.iflush(1, memories, offsets, sizes);
  }

  /** Lets the kernel take what is visible, in order; returns how many steps that were. */
  @HotPath
  int complete(long received) {
    long before = flushed;
    while (flushed < received && isVisible(flushed)) {
      events.done(flushed++);
    }
    if (flushed > before) {
      channel.setTail(flushed);
    }
    return (int) (flushed - before);
  }

  private boolean isVisible(long step) {
    NetRequest flush = requests[channel.slot(step)];
    if (flush != null && !flush.test(null)) {
      return false;
    }
    requests[channel.slot(step)] = null;
    return true;
  }
}
