/**
 * TCP connections between the processes of a communicator: the choice of interfaces and ports, and
 * sockets that listen. Layer: below settings, bootstrap and the transports, which all use it; knows
 * none of them.
 *
 * <p>{@code Interfaces} applies NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY ({@code
 * InterfaceFilter}); {@code ListeningSocket} opens a port of NCCL4J_BOOTSTRAP_PORTS ({@code
 * PortRange}).
 */
package org.nccl4j.api.wire;
