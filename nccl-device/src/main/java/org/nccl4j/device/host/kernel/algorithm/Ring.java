package org.nccl4j.device.host.kernel.algorithm;

/**
 * This rank's place in the ring.
 *
 * @param order ranks in ring order
 * @param place where this rank is in it
 */
public record Ring(int[] order, int place) {
  public static Ring of(int[] order, int rank) {
    int place = 0;
    while (order[place] != rank) {
      place++;
    }
    return new Ring(order, place);
  }

  public int size() {
    return order.length;
  }

  public int next() {
    return ahead(1);
  }

  public int previous() {
    return ahead(size() - 1);
  }

  /** The rank some places ahead. */
  int ahead(int places) {
    return order[(place + places) % order.length];
  }
}
