package org.nccl4j.api.init;

import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.ConnectionLayout;

/** What transports are told. */
record Context(
    int rank,
    List<PeerInfo> peers,
    Device device,
    ConnectionLayout layout,
    byte[] secret,
    Function<String, Optional<String>> settings)
    implements TransportContext {
  @Override
  public Optional<String> setting(String name) {
    return settings.apply(name);
  }

  @Override
  public byte[] secret() {
    return secret.clone();
  }
}
