package org.nccl4j.it.perf.report;

/**
 * The engine's choice for an operation.
 *
 * @param algorithm its name
 * @param protocol its name
 * @param transport the names of the transports between the ranks
 * @param blocks of the operation on a GPU; 0 on the host
 */
public record Choice(String algorithm, String protocol, String transport, int blocks) {}
