package org.nccl4j.it.net;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.spi.NetContext;

/** A rank of this host's loopback interface; all ranks have one secret. */
record LoopbackContext(int rank, Map<String, String> settings) implements NetContext {
  LoopbackContext(int rank) {
    this(rank, Map.of());
  }

  @Override
  public byte[] secret() {
    return "sixteen bytes ok".getBytes(StandardCharsets.US_ASCII);
  }

  @Override
  public Optional<String> setting(String name) {
    return name.equals("NCCL_SOCKET_IFNAME")
        ? Optional.of("lo")
        : Optional.ofNullable(settings.get(name));
  }
}
