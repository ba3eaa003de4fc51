package org.nccl4j.transport.net.socket.link;

import java.nio.channels.SelectableChannel;
import java.time.Duration;
import java.util.function.Supplier;
import org.nccl4j.transport.net.failover.RestingWatch;

/**
 * The thread of one communicator's sockets that finds broken and silent ones, and replaces them.
 * While all are idle it rests until something comes over one of them, or to the port. Meanwhile the
 * operating system sees that they are alive ({@link KeepAlive}).
 */
public final class SocketWatch extends RestingWatch {
  /** Looks in the time of a silent socket, although nothing is under way. */
  private static final int IDLE_LOOKS = 8;

  private static final Duration SHORTEST_IDLE = Duration.ofMillis(5);

  private final Duration silence;

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
    super(
        "nccl4j-socket-watch",
        bound,
        idle(bound.isZero() ? Duration.ZERO : silence),
        port,
        listening);
    this.silence = bound.isZero() ? Duration.ZERO : silence;
  }

  private static Duration idle(Duration silence) {
    Duration share = silence.dividedBy(IDLE_LOOKS);
    return silence.isZero() || share.compareTo(SHORTEST_IDLE) > 0 ? share : SHORTEST_IDLE;
  }

  /** Returns the time after which another socket is tried in place of a silent one. */
  public Duration silence() {
    return silence;
  }
}
