package org.nccl4j.it.net;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.testkit.RankContext;

/** A rank of this host's loopback interface; all ranks have one secret. */
final class LoopbackContext {
  private LoopbackContext() {}

  static NetContext of(int rank) {
    return of(rank, Map.of());
  }

  static NetContext of(int rank, Map<String, String> settings) {
    return new RankContext(
        rank,
        "sixteen bytes ok".getBytes(StandardCharsets.US_ASCII),
        name -> name.equals("NCCL_SOCKET_IFNAME") ? "lo" : settings.get(name));
  }
}
