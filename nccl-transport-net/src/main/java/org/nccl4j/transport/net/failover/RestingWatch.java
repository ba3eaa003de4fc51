package org.nccl4j.transport.net.failover;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.function.Supplier;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.DebugLog;

/**
 * A watch that rests while all links are idle: until something comes over one of them or to the
 * port, or somebody wakes it.
 */
public class RestingWatch extends LinkWatch {
  private static final System.Logger LOG = DebugLog.of("NET");

  private final Supplier<SelectableChannel> listening;

  /** Ends the rest; null outside of it. Written by this thread. */
  private volatile Selector selector;

  /**
   * A watch without links.
   *
   * @param name of the thread
   * @param bound longest time that a broken link may take to be repaired; zero for no repair
   * @param idle longest time without a look before it may rest; zero for no bound
   * @param port takes what comes at the port
   * @param listening the socket of the port; null if it is closed
   */
  public RestingWatch(
      String name,
      Duration bound,
      Duration idle,
      Runnable port,
      Supplier<SelectableChannel> listening) {
    super(name, bound, idle, port);
    this.listening = listening;
  }

  @Override
  public final void wake() {
    super.wake();
    Selector resting = selector;
    if (resting != null) {
      resting.wakeup();
    }
  }

  @Override
  protected final boolean prepareRest() {
    boolean rests = false;
    try {
      Selector made = Selector.open();
      selector = made;
      rests = true;
      for (Watched link : links()) {
        rests &= link.mayRest(made);
      }
      SelectableChannel port = listening.get();
      if (port != null) {
        port.register(made, SelectionKey.OP_ACCEPT);
      }
      rests &= made.selectNow() == 0; // else something has come that nobody reads
    } catch (IOException | CancelledKeyException e) {
      rests = false;
      LOG.log(Level.DEBUG, "idle links are looked at in turn", e);
    } finally {
      if (!rests) {
        release();
      }
    }
    return rests;
  }

  @Override
  protected final void rest(boolean waits) {
    Selector resting = selector;
    try {
      if (waits) {
        resting.select();
      }
    } catch (IOException e) {
      LOG.log(Level.DEBUG, "idle links are looked at in turn", e);
    } finally {
      release();
    }
    Thread.interrupted();
    long now = System.nanoTime();
    for (Watched link : links()) {
      link.rested(now);
    }
  }

  /** Lets go of the channels; those that were closed meanwhile are then free. */
  private void release() {
    Selector resting = selector;
    selector = null;
    Sockets.close(resting);
  }
}
