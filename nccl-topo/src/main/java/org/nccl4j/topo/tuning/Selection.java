package org.nccl4j.topo.tuning;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/**
 * The choice for an operation.
 *
 * @param algorithm the algorithm
 * @param protocol the protocol
 * @param micros predicted time in microseconds
 */
public record Selection(Algorithm algorithm, Protocol protocol, float micros) {}
