/**
 * The topology of all ranks' machines: {@link org.nccl4j.api.init.topology.TopologyExchange} merges
 * it, and {@link org.nccl4j.api.init.topology.ChannelGraphs} searches the rings and trees of the
 * channels in it.
 *
 * <p>Layer: between {@link org.nccl4j.api.init.peers} and {@link org.nccl4j.api.init.connect}.
 * Neighbour: the module nccl-topo, which models, searches and costs.
 */
package org.nccl4j.api.init.topology;
