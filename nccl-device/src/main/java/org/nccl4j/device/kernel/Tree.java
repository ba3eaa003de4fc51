package org.nccl4j.device.kernel;

import java.util.List;

/**
 * This rank's place in one tree of the double binary tree.
 *
 * @param up the parent, or -1 at the root
 * @param down the children; none at a leaf
 */
public record Tree(int up, List<Integer> down) {}
