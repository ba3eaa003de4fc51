package org.nccl4j.transport.net.socket.link;

import java.time.Duration;
import org.nccl4j.transport.net.failover.LinkWatch;

/**
 * The thread of one communicator's sockets that finds broken and silent ones, and replaces them.
 */
public final class SocketWatch extends LinkWatch {
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
   */
  public SocketWatch(Duration bound, Duration silence, Runnable port) {
    super("nccl4j-socket-watch", bound, idle(bound.isZero() ? Duration.ZERO : silence), port);
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
