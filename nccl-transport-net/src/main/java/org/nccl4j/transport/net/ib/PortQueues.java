package org.nccl4j.transport.net.ib;

import java.util.Arrays;
import org.nccl4j.transport.net.ib.control.RemotePort;
import org.nccl4j.transport.net.ib.device.CompletionQueue;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.device.RegistrationCache;

/**
 * The queue pairs of one end of a connection at one port, their completion queue, and the table of
 * announcements as the port's device knows it. Owned by the thread that has the connection's turn.
 */
final class PortQueues implements AutoCloseable {
  final LocalQpInfo local;
  final OpenDevice device;
  final CompletionQueue completions;
  final QueuePair[] pairs;

  private final RegistrationCache.Region region;
  private long[] handles;
  private boolean stopped;
  private boolean closed;

  /** Opens the device and makes so many queue pairs. */
  PortQueues(
      IbSettings settings, LocalQpInfo local, int count, NicQueues.Size size, ClearToSend table) {
    this.local = local;
    pairs = new QueuePair[count];
    device = OpenDevice.of(settings, local.port().device());
    CompletionQueue queue = null;
    RegistrationCache.Region registered = null;
    try {
      queue = new CompletionQueue(device, size.entries());
      for (int i = 0; i < pairs.length; i++) {
        pairs[i] = new QueuePair(device, queue, size.sends(), size.receives());
      }
      registered = device.cache().register(table, table.address(), ClearToSend.BYTES);
    } finally {
      if (registered == null) {
        closePairs();
        if (queue != null) {
          queue.close();
        }
        device.close();
      }
    }
    completions = queue;
    region = registered;
    handles = new long[pairs.length + 1];
    handles[pairs.length] = queue.handle();
    for (int i = 0; i < pairs.length; i++) {
      handles[i] = pairs[i].handle();
    }
  }

  /** Has what is reported of one more queue pair count as this connection's, until it closes. */
  void watch(QueuePair another) {
    handles = Arrays.copyOf(handles, handles.length + 1);
    handles[handles.length - 1] = another.handle();
  }

  /** Returns the port as the other end needs to know it. */
  RemotePort describe() {
    return new RemotePort(
        local.port().name(),
        local.port().lid(),
        local.port().mtu(),
        local.port().ethernet(),
        local.gid().address(),
        local.port().megabits(),
        region.remoteKey());
  }

  /** The key of the table for this end. */
  int tableKey() {
    return region.localKey();
  }

  /**
   * Looks for events of the device.
   *
   * @throws org.nccl4j.device.NcclException if the device or one of the queues is dead, or the port
   *     is down for long
   */
  void check(long patienceNanos) {
    device.events().check(handles, local.port().port(), patienceNanos);
  }

  /** True if the port is known to be down. */
  boolean isDown() {
    return device.events().isDown(local.port().port());
  }

  /** Ends the queue pairs: nothing leaves or arrives any more. */
  void stop() {
    if (!stopped) {
      stopped = true;
      closePairs();
    }
  }

  private void closePairs() {
    for (QueuePair pair : pairs) {
      if (pair != null) {
        pair.close();
      }
    }
  }

  /** Frees all. Memory that is registered with the device has to be forgotten before. */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    stop();
    region.close();
    completions.close();
    device.close();
  }
}
