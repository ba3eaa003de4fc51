package org.nccl4j.testkit;

import java.util.Optional;
import java.util.function.UnaryOperator;
import org.nccl4j.api.spi.NetContext;

/**
 * A rank as a network sees it, to open networks without a communicator.
 *
 * @param secret the same for all ranks that connect
 * @param settings a setting's value by its name, or null
 */
public record RankContext(int rank, byte[] secret, UnaryOperator<String> settings)
    implements NetContext {
  @Override
  public byte[] secret() {
    return secret.clone();
  }

  @Override
  public Optional<String> setting(String name) {
    return Optional.ofNullable(settings.apply(name));
  }
}
