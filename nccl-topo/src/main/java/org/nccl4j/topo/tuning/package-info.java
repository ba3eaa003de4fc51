/**
 * The cost model: how long an operation takes with each algorithm and protocol, which is cheapest,
 * and with how many channels and threads. Layer: above {@code connect}; the engine plans with it.
 */
package org.nccl4j.topo.tuning;
