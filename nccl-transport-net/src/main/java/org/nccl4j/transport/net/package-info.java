/**
 * The NET transport: connections between ranks that share no memory, made of a network's messages.
 * Layer: transport; depends on the SPI, api.wire and the devices alone, and on no network: those
 * are found by {@link java.util.ServiceLoader} and handed over by the engine. Below it are {@code
 * memory}, where the ends of connections lie, and {@code proxy}, which moves their data.
 *
 * <p>Each end has both regions of a connection in memory of its own. A {@code SendProxy} sends each
 * slot that the kernel has filled, and advances the head once the slot may be filled again; a
 * {@code RecvProxy} receives into each empty slot, and advances the tail. So kernels do not know
 * whether a peer is near or far. A message is one step: the tag is 0, the order is that of the
 * steps, and the flow is controlled by the network.
 *
 * <p>A rank may send through the network card of another rank of its host ({@code PxnRoutes},
 * {@code PxnSender}, {@code PxnConnector}).
 *
 * <p>GPUs use LL where slots are in memory of the host: the sender's proxy packs the data of the
 * lines, and the receiver's proxy makes lines of them ({@code GpuLineSlots}). LL128, and LL on the
 * host device, are not used: a network writes no words of data and flag in one piece.
 */
package org.nccl4j.transport.net;
