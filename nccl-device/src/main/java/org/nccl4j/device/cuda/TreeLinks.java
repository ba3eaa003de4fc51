package org.nccl4j.device.cuda;

/**
 * One rank's place in one of two binary trees, of which each rank is inner node in at most one, so
 * that together they use all of every rank's bandwidth (Sanders, Speck, Träff: Two-tree algorithms
 * for full bandwidth broadcast, reduction and scan).
 *
 * @param up the parent's position, or -1 at the root
 * @param down0 a child's position, or -1
 * @param down1 the other child's position, or -1
 */
record TreeLinks(int up, int down0, int down1) {
  /**
   * The place of a position among n.
   *
   * @param tree 0 or 1; the second is the first's mirror image, or its shift where n is odd
   */
  static TreeLinks of(int tree, int position, int n) {
    if (tree == 0) {
      return first(position, n);
    }
    boolean mirror = n % 2 == 0;
    TreeLinks links = first(mirror ? n - 1 - position : (position + n - 1) % n, n);
    return new TreeLinks(
        back(links.up, mirror, n), back(links.down0, mirror, n), back(links.down1, mirror, n));
  }

  private static int back(int position, boolean mirror, int n) {
    return position < 0 ? -1 : mirror ? n - 1 - position : (position + 1) % n;
  }

  /** A position's lowest set bit is its height; the root is 0 and has one child. */
  private static TreeLinks first(int position, int n) {
    if (position == 0) {
      int child = Integer.highestOneBit(Math.max(n - 1, 1));
      return new TreeLinks(-1, n > 1 ? child : -1, -1);
    }
    int bit = Integer.lowestOneBit(position);
    int up = (position ^ bit) | (bit << 1);
    if (up >= n) {
      up = position ^ bit;
    }
    int half = bit / 2;
    int left = half == 0 ? -1 : position - half;
    int right = -1;
    for (int b = half; b > 0 && right < 0; b /= 2) {
      right = position + b < n ? position + b : -1;
    }
    return new TreeLinks(up, left, right);
  }
}
