/**
 * Exchanges with experts and ragged exchanges, by kernels or by sends and receives: the ranks'
 * agreement at creation, the checks of calls, and the calls. Entrances: {@code ExpertDelivery} and
 * {@code RaggedDelivery}. Layer: below {@code org.nccl4j.api}, which alone uses it; above {@code
 * init}, {@code group}, {@code launch} and {@code window}.
 */
package org.nccl4j.api.exchange;
