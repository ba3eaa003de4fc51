package org.nccl4j.api.plan;

/**
 * The algorithm and protocol of an operation, in the words of tables and messages.
 *
 * @param algorithm such as "Ring" or "TwoShot"; "Pairwise" for operations made of sends
 * @param protocol such as "LL" or "Simple"
 */
public record Way(String algorithm, String protocol) {
  @Override
  public String toString() {
    return algorithm + " " + protocol;
  }
}
