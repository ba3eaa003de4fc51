/**
 * Ragged exchanges, by kernels or by sends and receives, and what exchanges with experts share with
 * them: the ranks' agreement at creation and the checks of calls. Entrance: {@code RaggedDelivery}.
 * Layer: beside {@code org.nccl4j.api}, which alone uses it; above {@code init}, {@code group} and
 * {@code window}.
 */
package org.nccl4j.api.exchange;
