package org.nccl4j.topo.tuning;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/**
 * The way an operation is done.
 *
 * @param algorithm the algorithm
 * @param protocol the protocol
 * @param micros how long it is predicted to take, in microseconds
 */
public record Selection(Algorithm algorithm, Protocol protocol, float micros) {}
