package org.nccl4j.transport.net;

import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.spi.TransportContext;

/**
 * The number of channels of GPUs' connections that proxies carry: the user's, else as many as use
 * all of the hosts' cards, as the topology has it. With less than two, a channel's kernel could not
 * fill slots while the other's are in flight. All pairs of ranks are connected with all channels,
 * so there are fewer where there are many ranks. All ranks have the same number.
 */
public final class NetChannelCount {
  /** Largest number of channels: a connector has room for as many handles. */
  public static final int MOST = 16;

  private static final int LEAST = 2;

  /** Most network connections of a rank each way, where more than {@link #LEAST} are chosen. */
  private static final int CONNECTIONS = 512;

  private NetChannelCount() {}

  /** The user's number, or the library's. */
  static int of(TransportContext context) {
    return of(context, context.peers().size(), context.netChannels());
  }

  /**
   * The same of any communicator.
   *
   * @param settings the user's
   * @param cards channels that use all of the hosts' cards; 0 where that is not known
   */
  public static int of(SettingValues settings, int nRanks, int cards) {
    int asked = settings.get(TopologySettings.NCCL_NCHANNELS_PER_NET_PEER);
    if (asked > 0) {
      return Math.min(MOST, asked);
    }
    int room = Math.min(MOST, CONNECTIONS / nRanks);
    return Math.max(LEAST, Math.min(cards, room));
  }
}
