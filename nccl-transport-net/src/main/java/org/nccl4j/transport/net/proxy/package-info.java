/**
 * Proxies of network connections: {@code SendProxy} sends slots that a kernel has filled, {@code
 * RecvProxy} receives into those that it has emptied. Layer: between the connectors of {@code
 * transport.net} and {@code memory}; run on the engine's proxy thread.
 *
 * <p>{@code GdrFlush} makes received data visible to a GPU, {@code DelayedFailure} holds back a
 * failure for its cause, {@code StepEvents} tells recordings and profilers of steps.
 */
package org.nccl4j.transport.net.proxy;
