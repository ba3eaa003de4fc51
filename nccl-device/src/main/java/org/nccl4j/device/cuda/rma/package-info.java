/**
 * One-sided operations with ranks outside the team: streams fill slots in pinned memory, or expose
 * the proxy the source, and the communicator's proxy carries them over a network to slots or
 * windows.
 *
 * <p>Entrance: {@code RmaReceiver}, which makes the {@code RmaSender}; {@code RmaPlan} launches;
 * {@code ExposedPuts} and {@code PlacedPuts} for transports. Layer: above {@code cuda.plan}, beside
 * {@code cuda.copy} and {@code cuda.window}.
 */
package org.nccl4j.device.cuda.rma;
