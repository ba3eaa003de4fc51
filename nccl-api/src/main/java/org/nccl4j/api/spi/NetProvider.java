package org.nccl4j.api.spi;

/**
 * A network between ranks of different hosts; found by {@link java.util.ServiceLoader}. Stateless;
 * any thread may call any method.
 */
public interface NetProvider {
  /**
   * Its name in logs, in {@code NCCL_NET} and between ranks: two ranks use it with each other when
   * both have a network of this name. At most 32 letters, digits and hyphens.
   */
  String name();

  /**
   * Where it stands when the user did not say: of those that both ends have, the one of highest
   * priority is used, and of equals the first by name. IB has 200, Socket 100.
   */
  int priority();

  /**
   * Whether it can be used here and now: hardware, drivers, permissions, limits and settings. The
   * reason says what was found, or what is missing and how to get it. May look at the machine, but
   * leaves nothing open.
   */
  Support support(NetContext context);

  /**
   * The network for one communicator, where support said yes. May neither open nor allocate: that
   * happens when it listens or connects.
   */
  Net open(NetContext context);
}
