package org.nccl4j.it.api;

import java.util.concurrent.CompletionException;
import java.util.stream.IntStream;
import org.nccl4j.api.CommunicatorConfig;

/** A program of 24 ranks on hosts of their own that connect with all others at creation. */
final class FewDescriptors {
  private FewDescriptors() {}

  /** Prints the error of the creation. */
  public static void main(String[] args) {
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
    System.exit(0);
  }
}
