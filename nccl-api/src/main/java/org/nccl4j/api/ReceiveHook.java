package org.nccl4j.api;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;

/**
 * The receiving part of a dispatch or combine that was begun ({@link ExpertExchange#beginDispatch},
 * {@link ExpertExchange#beginCombine}).
 *
 * <p>Thread safety: one thread at a time, with all calls of its exchange.
 */
public final class ReceiveHook {
  private final ExpertExchange exchange;
  private final String call;

  /** The receive buffer of a combine; null for a dispatch. */
  private final DeviceMemory result;

  /** True if the sending part was put into a graph, which may never run. */
  private final boolean captured;

  ReceiveHook(ExpertExchange exchange, String call, DeviceMemory result, boolean captured) {
    this.exchange = exchange;
    this.call = call;
    this.result = result;
    this.captured = captured;
  }

  /**
   * Receives: the data are there when the stream has ended it. Once, on each rank.
   *
   * @param stream that of the sending part or another; it does the receiving part after the sending
   *     part
   * @throws InvalidUsageException if it was received, after close of the exchange, in a group, and
   *     while the stream is captured unless {@link ExpertExchange#isCapturable}
   */
  public void receive(DeviceStream stream) {
    exchange.receive(this, stream);
  }

  String call() {
    return call;
  }

  DeviceMemory result() {
    return result;
  }

  boolean isCaptured() {
    return captured;
  }
}
