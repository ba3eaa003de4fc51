/**
 * Transports and connections: {@link org.nccl4j.api.init.connect.TransportRoutes} selects the
 * transport to each rank, and {@link org.nccl4j.api.init.connect.VerifiedConnections} connects and
 * checks.
 *
 * <p>Layer: between {@link org.nccl4j.api.init.topology} and {@link org.nccl4j.api.init.engine}.
 * Neighbours: {@link org.nccl4j.api.spi}, whose providers are called here only, and {@link
 * org.nccl4j.api.registry}, which finds them.
 */
package org.nccl4j.api.init.connect;
