/**
 * The cost model: the time of an operation with each algorithm and protocol, the cheapest choice,
 * and its channels and threads. Layer: above {@code connect}; the engine plans with it.
 */
package org.nccl4j.topo.tuning;
