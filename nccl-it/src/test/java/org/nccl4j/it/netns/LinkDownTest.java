package org.nccl4j.it.netns;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.api.LineRank;
import org.nccl4j.it.api.RankJvm;

/**
 * Ranks on hosts with several interfaces, of which some go down or silent in the middle of random
 * operations, and come back or do not. No result is wrong, nothing hangs, nothing is left behind.
 * The system properties nccl4j.chaos.first and nccl4j.chaos.seeds say which seeds. Needs root.
 */
@Timeout(7200)
class LinkDownTest {
  @TempDir private Path folder;

  private final List<LineRank> ranks = new ArrayList<>();
  private NamespaceHosts hosts;

  @AfterEach
  void end() {
    ranks.forEach(LineRank::close);
    if (hosts != null) {
      hosts.close();
    }
  }

  @Test
  void anotherInterfaceTakesOver() throws Exception {
    long first = Long.getLong("nccl4j.chaos.first", 1);
    long seeds =
        Long.getLong("nccl4j.chaos.seeds", Boolean.getBoolean("nccl4j.thorough") ? 200 : 3);
    hosts = NamespaceHosts.make(LinkDownPlan.MOST_HOSTS, LinkDownPlan.MOST_RAILS);
    List<Path> logs = new ArrayList<>();
    for (int host = 0; host < LinkDownPlan.MOST_HOSTS; host++) {
      List<String> command = new ArrayList<>(hosts.command(host));
      command.addAll(RankJvm.command());
      command.add(LinkDownRank.class.getName());
      logs.add(folder.resolve("rank" + host));
      ranks.add(new LineRank(command, ProcessBuilder.Redirect.to(logs.get(host).toFile())));
    }
    LinkDownRounds rounds = new LinkDownRounds(hosts, ranks, logs);
    for (long seed = first; seed < first + seeds; seed++) {
      rounds.play(LinkDownPlan.of(LinkDownPlan.Network.SOCKETS, seed));
    }
    rounds.end();
  }
}
