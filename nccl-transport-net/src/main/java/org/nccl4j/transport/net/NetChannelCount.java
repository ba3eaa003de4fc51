package org.nccl4j.transport.net;

import java.util.List;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * The number of channels of GPUs' connections that proxies carry: the user's, else as many as use
 * all of the hosts' cards, as the topology has it. With less than two, a channel's kernel could not
 * fill slots while the other's are in flight. Pairs to which no ring, tree or the like leads have
 * fewer channels the more ranks there are, since each rank may be connected with all of them. All
 * ranks have the same numbers.
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

  /**
   * Most network connections of a rank each way with ranks that are no neighbours, where more than
   * {@link #LEAST} are chosen.
   */
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
    return context.isNeighbour(peer)
        ? ofNeighbours(context, useful)
        : ofPairs(context, peers.size(), useful);
  }

  /**
   * Returns the number between GPUs that are neighbours in rings, trees or the like.
   *
   * @param settings the user's
   * @param cards channels that use all of the hosts' cards; 0 where that is not known
   */
  public static int ofNeighbours(SettingValues settings, int cards) {
    return limited(settings, cards, MOST);
  }

  /** Returns the number between other GPUs; the arguments as above. */
  public static int ofPairs(SettingValues settings, int nRanks, int cards) {
    return limited(settings, cards, CONNECTIONS / nRanks);
  }

  private static int limited(SettingValues settings, int cards, int room) {
    int asked = settings.get(TopologySettings.NCCL_NCHANNELS_PER_NET_PEER);
    return asked > 0
        ? Math.min(MOST, asked)
        : Math.max(LEAST, Math.min(cards, Math.min(MOST, room)));
  }
}
