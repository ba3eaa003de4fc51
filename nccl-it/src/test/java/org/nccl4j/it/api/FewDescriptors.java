package org.nccl4j.it.api;

import java.util.concurrent.CompletionException;
import java.util.stream.IntStream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.NcclException;

/**
 * A program of 24 ranks on hosts of their own that connect with all others at creation; or, with
 * the argument "root", of the root and the first of 500 ranks.
 */
final class FewDescriptors {
  private FewDescriptors() {}

  /** Prints the error of the creation. */
  public static void main(String[] args) {
    if (args.length > 0) {
      join();
    } else {
      connect();
    }
    System.exit(0);
  }

  private static void join() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL4J_INIT_TIMEOUT", "120s");
    try {
      UniqueId id = UniqueId.create(config);
      Communicator.initRank(500, id, 0, Devices.host(), config).close();
      System.out.println("made");
    } catch (NcclException e) {
      System.out.println(e.getMessage());
    }
  }

  private static void connect() {
    StringBuilder hosts = new StringBuilder();
    IntStream.range(0, 24).forEach(rank -> hosts.append((char) ('A' + rank)));
    CommunicatorConfig all =
        CommunicatorConfig.defaults()
            .with("NCCL_SHM_DISABLE", "1")
            .with("NCCL_RUNTIME_CONNECT", "0");
    try {
      Ranks.onHosts(hosts.toString(), all).close();
      System.out.println("made");
    } catch (CompletionException e) {
      System.out.println(e.getCause().getMessage());
    }
  }
}
