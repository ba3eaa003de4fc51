/**
 * One-sided operations with ranks outside the team: streams fill slots in pinned memory, and the
 * communicator's proxy carries them over a network.
 *
 * <p>Entrance: {@code RmaReceiver}, which makes the {@code RmaSender}; {@code RmaPlan} launches.
 * Layer: above {@code cuda.plan}, beside {@code cuda.copy} and {@code cuda.window}.
 */
package org.nccl4j.device.cuda.rma;
