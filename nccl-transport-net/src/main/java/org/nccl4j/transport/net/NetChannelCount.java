package org.nccl4j.transport.net;

import java.util.List;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * The number of channels of GPUs' connections that proxies carry: the user's, else as many as use
 * all of the hosts' cards, as the topology has it. With less than two, a channel's kernel could not
 * fill slots while the other's are in flight. Where all pairs of ranks are connected, or all may
 * come to be, there are fewer channels the more ranks there are. All ranks have the same numbers.
 */
public final class NetChannelCount {
  /**
   * Largest number of channels: half of all, since carried ones use the words of the others too.
   */
  public static final int MOST = ConnectionLayout.CHANNELS / 2;

  /**
   * Most channels of a network of another author, unless the user asks for more: the handles of
   * {@link #MOST} fit a connector only where they are alike.
   */
  static final int MOST_OF_PLUGINS = 16;

  private static final int LEAST = 2;

  /** Most network connections of a rank each way, where more than {@link #LEAST} are chosen. */
  private static final int CONNECTIONS = 512;

  private NetChannelCount() {}

  /** Returns the number of the connections between this rank and another. */
  static int of(TransportContext context, int peer) {
    List<PeerInfo> peers = context.peers();
    int cards = context.netChannels();
    int useful =
        CommonNetwork.isPlugin(peers.get(context.rank()), peers.get(peer))
            ? Math.min(cards, MOST_OF_PLUGINS)
            : cards;
    return context.connectsLate(peer)
        ? amongAll(context, peers.size(), useful)
        : of(context, peers.size(), useful);
  }

  /**
   * Returns the number of the connections that a communicator of GPUs is created with.
   *
   * @param settings the user's
   * @param cards channels that use all of the hosts' cards; 0 where that is not known
   */
  public static int of(SettingValues settings, int nRanks, int cards) {
    return ScaleSettings.connectsLate(settings, Device.Kind.CUDA, nRanks)
        ? limited(settings, cards, MOST)
        : amongAll(settings, nRanks, cards);
  }

  private static int amongAll(SettingValues settings, int nRanks, int cards) {
    return limited(settings, cards, CONNECTIONS / nRanks);
  }

  private static int limited(SettingValues settings, int cards, int room) {
    int asked = settings.get(TopologySettings.NCCL_NCHANNELS_PER_NET_PEER);
    return asked > 0
        ? Math.min(MOST, asked)
        : Math.max(LEAST, Math.min(cards, Math.min(MOST, room)));
  }
}
