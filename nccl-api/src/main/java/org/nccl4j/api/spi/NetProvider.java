package org.nccl4j.api.spi;

/**
 * A network between ranks of different hosts; found by {@link java.util.ServiceLoader}. Stateless;
 * any thread may call any method.
 */
public interface NetProvider {
  /**
   * Returns the network's name in logs, in {@code NCCL_NET} and between ranks. Two ranks can use a
   * network with each other if both have one of this name. At most 32 letters, digits and hyphens.
   */
  String name();

  /**
   * The priority without a user's choice: a pair of ranks uses the network with the highest
   * priority that both have, the first by name among equals. IB has 200, Socket 100.
   */
  int priority();

  /**
   * Checks whether the network works here and now: hardware, drivers, permissions, limits and
   * settings. The reason gives the findings, or the missing part and its remedy. May examine the
   * machine, but must not leave anything open.
   */
  Support support(NetContext context);

  /**
   * Returns the network for one communicator, after a positive support. Must neither open nor
   * allocate: that happens when it listens or connects.
   */
  Net open(NetContext context);
}
