/**
 * What the author of a transport sees. Layer: below the engine, above the devices; a transport
 * depends on this package and on {@code org.nccl4j.device}, and on no other transport.
 *
 * <p>A {@link org.nccl4j.api.spi.TransportProvider} is stateless and found by {@link
 * java.util.ServiceLoader}. For each communicator it opens a {@link org.nccl4j.api.spi.Transport},
 * which says which peers it can reach and makes a {@link org.nccl4j.api.spi.Connector} for each
 * direction of each such peer. The engine carries at most 1024 opaque bytes from each connector to
 * its opposite, calls {@code connect} until it is done, and gives the connectors' memory to the
 * kernels.
 *
 * <p>A {@link org.nccl4j.api.spi.NetProvider} is likewise found by {@link java.util.ServiceLoader}.
 * Its {@link org.nccl4j.api.spi.Net} carries messages between two ranks; the NET transport makes
 * connections of them, so that the author of a network need not know of slots and kernels.
 */
package org.nccl4j.api.spi;
