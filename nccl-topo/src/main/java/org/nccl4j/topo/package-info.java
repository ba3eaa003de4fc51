/**
 * The machine as a graph, and its paths, rings, trees and costs. Layer: above the tables of {@code
 * org.nccl4j.operation}, below everything else; knows no device and no communicator.
 */
package org.nccl4j.topo;
