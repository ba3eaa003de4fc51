package org.nccl4j.transport.net;

import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.TransportContext;

/**
 * The number of channels of GPUs' connections that proxies carry. One proxy thread serves all, so
 * more channels add little; with two, one channel's kernel fills slots while the other's slots are
 * in flight.
 */
public final class NetChannelCount {
  /** Largest number of channels: a connector has room for as many handles. */
  public static final int MOST = 4;

  private static final int CHOSEN = 2;

  private NetChannelCount() {}

  /** The user's number, or the library's. */
  static int of(TransportContext context) {
    int asked = context.get(TopologySettings.NCCL_NCHANNELS_PER_NET_PEER);
    return asked == 0 ? CHOSEN : Math.min(MOST, asked);
  }
}
