package org.nccl4j.transport.net;

import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The number of channels of GPUs' connections that proxies carry. One proxy thread serves all, so
 * more channels add little; with two, one channel's kernel fills slots while the other's slots are
 * in flight.
 */
public final class NetChannelCount {
  /** Largest number of channels: a connector has room for as many handles. */
  public static final int MOST = 4;

  private static final String SETTING = "NCCL_NCHANNELS_PER_NET_PEER";
  private static final int CHOSEN = 2;

  private NetChannelCount() {}

  /**
   * The number.
   *
   * @throws InvalidArgumentException if the user's is none
   */
  static int of(TransportContext context) {
    String text = context.setting(SETTING).orElse("0").strip();
    if (!text.matches("[0-9]{1,9}")) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "%s=%s is not a number of channels".formatted(SETTING, text),
          "use 1 to %d, or 0 for as many as are good".formatted(MOST));
    }
    int asked = Integer.parseInt(text);
    return asked == 0 ? CHOSEN : Math.min(MOST, asked);
  }
}
