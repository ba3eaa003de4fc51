/**
 * The machine as a graph, and what is computed from it. Layer: below everything; knows no device
 * and no communicator.
 */
package org.nccl4j.topo;
