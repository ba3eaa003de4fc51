/**
 * Topology and graph files as trees of elements: read with limits and line numbers, written, pruned
 * and fused. Knows the files' grammar, not the meaning of values. Layer: above the vocabulary of
 * {@link org.nccl4j.topo}; {@code system}, {@code search} and {@code detect} use it.
 */
package org.nccl4j.topo.xml;
