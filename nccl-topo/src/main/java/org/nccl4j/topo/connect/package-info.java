/**
 * From the graphs of single machines to a communicator: which rank is on which node, rings and
 * trees over all nodes, and how many channels each kind of operation gets. Layer: above {@code
 * search}; {@code tuning} and the engine use it.
 */
package org.nccl4j.topo.connect;
