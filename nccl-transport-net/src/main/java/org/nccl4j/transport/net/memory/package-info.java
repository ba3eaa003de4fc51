/**
 * Memory of the two ends of a network connection: words and slots, in the host's memory or in a
 * GPU's where the network card reaches it (GPUDirect). Layer: below the proxies and the connectors
 * of {@code transport.net}.
 *
 * <p>{@code EndMemory} is the entrance, a {@code HostEndMemory} or a {@code GpuEndMemory}; {@code
 * ProxyChannel} is what a proxy sees of one channel of it, and {@code SharedEnd} how another rank
 * of the host maps it (PXN). {@code UserBuffers} are the users' memory, of the host or of a GPU, as
 * a network knows it.
 */
package org.nccl4j.transport.net.memory;
