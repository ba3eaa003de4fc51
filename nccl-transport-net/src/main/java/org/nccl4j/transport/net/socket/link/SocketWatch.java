package org.nccl4j.transport.net.socket.link;

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
import org.nccl4j.transport.net.failover.LinkWatch;

/**
 * The thread of one communicator's sockets that finds broken and silent ones, and replaces them.
 * While all are idle it rests until something comes over one of them, or to the port. Meanwhile the
 * operating system sees that they are alive ({@link KeepAlive}).
 */
public final class SocketWatch extends LinkWatch {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Looks in the time of a silent socket, although nothing is under way. */
  private static final int IDLE_LOOKS = 8;

  private static final Duration SHORTEST_IDLE = Duration.ofMillis(5);

  private final Duration silence;
  private final Supplier<SelectableChannel> listening;

  /** Ends the rest; null outside of it. Written by this thread. */
  private volatile Selector selector;

  /**
   * A watch without links.
   *
   * @param bound longest time that a socket may take to be replaced; zero for no replacement
   * @param silence time after which another socket is tried in place of a silent one; zero for none
   * @param port takes what comes at the port
   * @param listening the socket of the port; null if it is closed
   */
  public SocketWatch(
      Duration bound, Duration silence, Runnable port, Supplier<SelectableChannel> listening) {
    super("nccl4j-socket-watch", bound, idle(bound.isZero() ? Duration.ZERO : silence), port);
    this.silence = bound.isZero() ? Duration.ZERO : silence;
    this.listening = listening;
  }

  private static Duration idle(Duration silence) {
    Duration share = silence.dividedBy(IDLE_LOOKS);
    return silence.isZero() || share.compareTo(SHORTEST_IDLE) > 0 ? share : SHORTEST_IDLE;
  }

  /** Returns the time after which another socket is tried in place of a silent one. */
  public Duration silence() {
    return silence;
  }

  @Override
  public void wake() {
    super.wake();
    Selector resting = selector;
    if (resting != null) {
      resting.wakeup();
    }
  }

  @Override
  protected boolean prepareRest() {
    boolean rests = false;
    try {
      Selector made = Selector.open();
      selector = made;
      rests = true;
      for (Watched link : links()) {
        rests &= ((SocketLink) link).mayRest(made);
      }
      SelectableChannel port = listening.get();
      if (port != null) {
        port.register(made, SelectionKey.OP_ACCEPT);
      }
      rests &= made.selectNow() == 0; // else something has come that nobody reads
    } catch (IOException | CancelledKeyException e) {
      rests = false;
      LOG.log(Level.DEBUG, "idle sockets are looked at in turn", e);
    } finally {
      if (!rests) {
        release();
      }
    }
    return rests;
  }

  @Override
  protected void rest(boolean waits) {
    Selector resting = selector;
    try {
      if (waits) {
        resting.select();
      }
    } catch (IOException e) {
      LOG.log(Level.DEBUG, "idle sockets are looked at in turn", e);
    } finally {
      release();
    }
    Thread.interrupted();
    long now = System.nanoTime();
    for (Watched link : links()) {
      ((SocketLink) link).rested(now);
    }
  }

  /** Lets go of the channels; those that were closed meanwhile are then free. */
  private void release() {
    Selector resting = selector;
    selector = null;
    Sockets.close(resting);
  }
}
