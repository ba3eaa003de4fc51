package org.nccl4j.api.spi;

/**
 * Connects ranks; found by {@link java.util.ServiceLoader}. Stateless; any thread may call any
 * method.
 */
public interface TransportProvider {
  /**
   * Returns the transport's name in logs, in {@code NCCL4J_TRANSPORTS} and between ranks. Two ranks
   * can use a transport with each other if both have a provider of this name. At most 32 letters,
   * digits and hyphens.
   */
  String name();

  /**
   * The priority without a user's choice: a pair of ranks uses the transport with the highest
   * priority that reaches both, the first by name among equals. P2P has 300, SHM 200, NET 100.
   */
  int priority();

  /**
   * True if kernels at both ends of its connections load and store each other's device memory. If
   * all ranks are connected so, the engine uses the algorithms that work between windows of GPUs.
   */
  default boolean sharesMemory() {
    return false;
  }

  /**
   * True if it connects ranks of different hosts with a proxy, through slots that the processor can
   * access. Puts and signals to other hosts use such a transport.
   */
  default boolean crossesHosts() {
    return false;
  }

  /**
   * Creates a transport for one communicator. Must neither allocate nor open anything: that happens
   * when connectors are created.
   */
  Transport open(TransportContext context);
}
