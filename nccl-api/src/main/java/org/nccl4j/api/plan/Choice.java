package org.nccl4j.api.plan;

import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Protocol;

/**
 * One way to do a collective.
 *
 * @param microseconds predicted
 */
record Choice(Algorithm algorithm, Protocol protocol, double microseconds) {}
