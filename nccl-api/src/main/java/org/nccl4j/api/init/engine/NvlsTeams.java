package org.nccl4j.api.init.engine;

import java.util.List;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.multicast.MulticastProvider.Team;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.Tree;

/**
 * The ranks that share a multicast object, and the heads among them: the heads that the topology
 * search found, in its order, or all ranks of a machine. All machines have the same number of
 * heads, that of the machine with the fewest and at most {@link NvlsLayout#MOST_HEADS}, so that
 * head h of each has the same part of the data.
 */
final class NvlsTeams {
  private final HostLayout hosts;

  /** Heads by host. */
  private final List<List<Integer>> heads;

  private final int channels;
  private final int most;

  /**
   * Teams.
   *
   * @param found heads of all hosts that the search found, in its order
   * @param channels that it gives NVLS, or 0
   * @param most channels that can be used
   */
  NvlsTeams(HostLayout hosts, List<Integer> found, int channels, int most) {
    this.hosts = hosts;
    this.channels = channels;
    this.most = most;
    List<List<Integer>> able = hosts.ranks().stream().map(ranks -> among(ranks, found)).toList();
    int fewest =
        Math.min(NvlsLayout.MOST_HEADS, able.stream().mapToInt(List::size).min().orElse(0));
    this.heads = able.stream().map(some -> some.subList(0, fewest)).toList();
  }

  /**
   * The teams of a communicator.
   *
   * @param facts about all ranks
   */
  static NvlsTeams of(
      InitRequest request, HostLayout hosts, ChannelGraphs graphs, CommunicatorProfile facts) {
    return new NvlsTeams(
        hosts, graphs.nvlsHeads(), graphs.nvlsChannels(), mostChannels(request, hosts, facts));
  }

  /**
   * The most channels of the slots: within the limits of the communicator and the room of all
   * ranks' GPUs, and between machines no more than connections have.
   */
  private static int mostChannels(
      InitRequest request, HostLayout hosts, CommunicatorProfile facts) {
    int most =
        Engine.ctas(request.settings(), request.device().kind())
            .within(facts.room())
            .mostOfDevice(/* few= */ 0, /* slots= */ true, /* bytes= */ 0);
    int blocks = most == 0 ? ConnectionLayout.CHANNELS : most;
    return hosts.count() > 1 ? Math.min(facts.spread().channels(), blocks) : blocks;
  }

  private static List<Integer> among(List<Integer> ranks, List<Integer> found) {
    List<Integer> some = found.stream().filter(ranks::contains).toList();
    return some.isEmpty() ? ranks : some;
  }

  /** The team of a rank's machine. */
  Team of(int rank) {
    int host = hosts.hostOf(rank);
    return new Team(hosts.ranks().get(host), heads.get(host), channels, most);
  }

  /**
   * A rank's places in the double binary tree of the heads of its number; none where it is no head,
   * or where there is one machine.
   */
  List<Tree> trees(int rank) {
    int host = hosts.hostOf(rank);
    int number = heads.get(host).indexOf(rank);
    if (number < 0 || hosts.count() == 1) {
      return List.of();
    }
    List<Integer> peers = heads.stream().map(each -> each.get(number)).toList();
    return List.of(HostLayout.between(peers, host, 0), HostLayout.between(peers, host, 1));
  }
}
