package org.nccl4j.testkit;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.spi.NetProvider;

/**
 * The contract of every network. Its author extends this class, implements its creation, and runs
 * the checks. Both ends are in this process.
 */
public abstract class NetContract {
  /** Called by subclasses. */
  protected NetContract() {}

  /** A new provider. */
  protected abstract NetProvider provider();

  /** The settings that the network is told. */
  protected Map<String, String> settings() {
    return Map.of();
  }

  /** All checks, in an order that begins with the simple ones. */
  public final List<Check> checks() {
    List<Check> checks = new ArrayList<>();
    checks.addAll(new NetMessageChecks(this).all());
    checks.addAll(new NetLifeCycleChecks(this).all());
    return List.copyOf(checks);
  }
}
