package org.nccl4j.transport.net.ib.device;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.lang.System.Logger;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.verbs.DescriptorWait;
import org.nccl4j.transport.net.ib.verbs.Descriptors;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/**
 * Asynchronous events of a device: its own death, a link that goes down, a queue in error. A thread
 * that waits for a completion reads them now and then; any thread.
 *
 * <p>The end of a device is an error for everything on it, the end of a queue for its connection. A
 * link that goes down may come back before the adapter's retries end: it is remembered, named as
 * the likely cause if a transfer then fails, and an error itself if it stays down for longer than
 * that.
 */
public final class AsyncEvents {
  private static final Logger LOG = DebugLog.of("NET");

  private final Verbs verbs;
  private final long context;
  private final String device;
  private final int number;
  private final Descriptors descriptor;
  private final Offheap event = new Offheap(ASYNC_EVENT_BYTES);
  private final Map<Long, NcclException> deadQueues = new ConcurrentHashMap<>();
  private final Map<Integer, Long> downSince = new ConcurrentHashMap<>();
  private volatile NcclException fatal;

  /** Null until somebody rests. Guarded by this. */
  private EventThread waiting;

  private volatile String trouble = "";

  AsyncEvents(Verbs verbs, long context, String device) {
    this.verbs = verbs;
    this.context = context;
    this.device = device;
    number = verbs.asyncDescriptor(context);
    descriptor = new Descriptors(number);
  }

  /**
   * Calls a function at each event until {@link #leave}, to wake a thread that does not call {@link
   * #check} for a while.
   *
   * @throws SystemErrorException if there is no descriptor for that
   */
  public synchronized void wake(Runnable whom) {
    if (waiting == null) {
      DescriptorWait wait = new DescriptorWait(number);
      try {
        waiting = new EventThread(this, device, wait);
      } finally {
        if (waiting == null) {
          wait.close();
        }
      }
    }
    waiting.wake(whom);
  }

  /** Ends the calls of a function. */
  public synchronized void leave(Runnable whom) {
    if (waiting != null) {
      waiting.leave(whom);
    }
  }

  /** Waits for no more events: the device is about to be closed. */
  void close() {
    EventThread ending;
    synchronized (this) {
      ending = waiting;
      waiting = null;
    }
    if (ending != null) {
      ending.close();
    }
  }

  /**
   * Takes the events that are there.
   *
   * @param queues the handles of a connection's queue pairs and completion queue
   * @param port the connection's
   * @param patienceNanos how long the port may be down
   * @throws NcclException if the device, or one of these queues, is no more, or the port is down
   */
  public void check(long[] queues, int port, long patienceNanos) {
    read();
    NcclException error = fatal;
    for (int i = 0; error == null && !deadQueues.isEmpty() && i < queues.length; i++) {
      error = deadQueues.get(queues[i]);
    }
    if (error != null) {
      throw error.again();
    }
    Long since = downSince.get(port);
    if (since != null && System.nanoTime() - since > patienceNanos) {
      throw new SystemErrorException(
          ErrorId.INFINIBAND,
          "InfiniBand: port %s:%d has been down for %.1f s"
              .formatted(device, port, (System.nanoTime() - since) / 1e9),
          "see its cable and switch, and ip link set up; raise NCCL_IB_TIMEOUT to wait longer");
    }
  }

  /** Takes the events that are there, and logs them; true if none is left. */
  synchronized boolean read() {
    while (descriptor.readable()) {
      if (!verbs.asyncEvent(context, event)) {
        return false;
      }
      int type = event.getInt(ASYNC_EVENT_TYPE);
      long element = event.getLong(0);
      verbs.acknowledge(event);
      take(type, element);
    }
    return true;
  }

  /** True if the device is dead. */
  public boolean isFatal() {
    return fatal != null;
  }

  /** True if a port is known to be down. */
  public boolean isDown(int port) {
    return downSince.containsKey(port);
  }

  /** A port is up, as the device says now. */
  void isUp(int port) {
    downSince.remove(port);
  }

  /** Forgets a queue that is destroyed. */
  public void forget(long queue) {
    deadQueues.remove(queue);
  }

  /** Returns the known errors that may explain a failed transfer; empty if there are none. */
  public String trouble() {
    return trouble;
  }

  private void take(int type, long element) {
    String name = verbs.eventName(type);
    switch (type) {
      case EVENT_DEVICE_FATAL ->
          fatal =
              error(
                  name,
                  "see the kernel's log (dmesg) for the adapter; reset it or leave it out by"
                      + " NCCL_IB_HCA=^"
                      + device);
      case EVENT_CQ_ERR, EVENT_QP_FATAL, EVENT_QP_REQ_ERR, EVENT_QP_ACCESS_ERR ->
          deadQueues.put(
              element,
              error(
                  name,
                  "see the error of the other rank, which may be its cause, and the kernel's log"
                      + " (dmesg)"));
      case EVENT_PORT_ERR -> {
        downSince.putIfAbsent((int) element, System.nanoTime());
        trouble(Logger.Level.WARNING, name, (int) element);
      }
      case EVENT_LID_CHANGE, EVENT_GID_CHANGE -> trouble(Logger.Level.INFO, name, (int) element);
      case EVENT_PORT_ACTIVE -> {
        downSince.remove((int) element);
        trouble = "";
        LOG.log(Logger.Level.INFO, "InfiniBand: port {0}:{1} is active", device, (int) element);
      }
      default -> LOG.log(Logger.Level.DEBUG, "InfiniBand: device {0} reports: {1}", device, name);
    }
  }

  private void trouble(Logger.Level level, String event, int port) {
    trouble = "device %s reported for port %d: %s".formatted(device, port, event);
    LOG.log(level, "InfiniBand: {0}", trouble);
  }

  private SystemErrorException error(String event, String remedy) {
    return new SystemErrorException(
        ErrorId.INFINIBAND, "InfiniBand: device %s reports: %s".formatted(device, event), remedy);
  }
}
