package org.nccl4j.api.plan;

/**
 * How an operation is done, in the words of tables and messages.
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
