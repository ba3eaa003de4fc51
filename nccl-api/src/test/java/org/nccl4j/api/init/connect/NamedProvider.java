package org.nccl4j.api.init.connect;

import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;

/** The provider of a transport that a test makes by itself. */
public record NamedProvider(String name, boolean sharesMemory) implements TransportProvider {
  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Transport open(TransportContext context) {
    throw new AssertionError("the test makes the transport");
  }
}
