package org.nccl4j.it.api;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;

/** Communicators of ranks of this process that take each other for ranks of several hosts. */
final class SeveralHosts {
  private SeveralHosts() {}

  /** Ranks over the network, so many in turn on each host. */
  static Ranks of(int n, int ranksAHost, CommunicatorConfig config) throws Exception {
    UniqueId id = UniqueId.create();
    List<FutureTask<Communicator>> tasks = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      int mine = rank;
      CommunicatorConfig own =
          config
              .withOperationTimeout(Duration.ofSeconds(60))
              .withTransports(List.of("NET"))
              .with("NCCL_SOCKET_IFNAME", "lo")
              .with("NCCL_HOSTID", "host" + rank / ranksAHost);
      tasks.add(new FutureTask<>(() -> Communicator.initRank(n, id, mine, Devices.host(), own)));
      Thread thread = new Thread(tasks.get(rank), "creates rank " + rank);
      thread.setDaemon(true);
      thread.start();
    }
    List<Communicator> made = new ArrayList<>();
    for (FutureTask<Communicator> task : tasks) {
      made.add(task.get(300, TimeUnit.SECONDS));
    }
    return new Ranks(made);
  }
}
