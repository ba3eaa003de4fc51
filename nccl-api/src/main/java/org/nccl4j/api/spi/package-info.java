/**
 * The interfaces of transports, networks, tuners and profilers. Layer: below the engine, above the
 * devices. A transport depends on this package, on {@code org.nccl4j.device} and on {@code
 * org.nccl4j.device.connection}, and on no other transport.
 *
 * <p>{@link java.util.ServiceLoader} finds a {@link org.nccl4j.api.spi.TransportProvider}, which is
 * stateless. For each communicator it opens a {@link org.nccl4j.api.spi.Transport}. The transport
 * names the peers that it can reach, and creates a {@link org.nccl4j.api.spi.Connector} for each
 * direction of each such peer. The engine carries at most 4096 opaque bytes from each connector to
 * its opposite, calls {@code connect} until it returns true, and gives the connectors' memory to
 * the kernels.
 *
 * <p>{@link java.util.ServiceLoader} also finds a {@link org.nccl4j.api.spi.NetProvider}. Its
 * {@link org.nccl4j.api.spi.Net} carries messages between two ranks. The NET transport builds
 * connections from such messages, so a network needs no knowledge of slots and kernels.
 */
package org.nccl4j.api.spi;
