package org.nccl4j.device.host.kernel;

/**
 * This rank's place in the ring.
 *
 * @param order ranks in ring order
 * @param place where this rank is in it
 */
record Ring(int[] order, int place) {
  static Ring of(int[] order, int rank) {
    int place = 0;
    while (order[place] != rank) {
      place++;
    }
    return new Ring(order, place);
  }

  int size() {
    return order.length;
  }

  int next() {
    return ahead(1);
  }

  int previous() {
    return ahead(size() - 1);
  }

  /** The rank some places ahead. */
  int ahead(int places) {
    return order[(place + places) % order.length];
  }
}
