/**
 * The tables of operations, algorithms and protocols, with the facts of each row. Layer: below
 * everything. Neighbours: the topology's cost model, the devices' kernels, the planner, tuners and
 * the command line, which all use these rows.
 */
package org.nccl4j.operation;
