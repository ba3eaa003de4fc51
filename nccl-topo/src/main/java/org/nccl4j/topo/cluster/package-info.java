/**
 * The whole way in one call: from a topology file and a number of machines to graphs, rings, trees
 * and costs. Layer: on top of this module; the command line and the engine start here.
 */
package org.nccl4j.topo.cluster;
