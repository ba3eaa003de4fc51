/**
 * TCP connections between the processes of a communicator: interfaces, ports, and connections that
 * begin with a proof that both sides know the secret. Layer: below settings, bootstrap and the
 * networks, which all use it; knows none of them.
 *
 * <p>{@code Interfaces} applies NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY ({@code
 * InterfaceFilter}); {@code ListeningSocket} opens a port of NCCL4J_BOOTSTRAP_PORTS ({@code
 * PortRange}). Every connection begins with the {@code Handshake}. Networks poll: a {@code Dialer}
 * connects and a {@code Listener} accepts, each by a {@code PendingHandshake}; {@code
 * AddressTrials} decides which address is tried when. The bootstrap runs the same handshake on its
 * event loop.
 */
package org.nccl4j.api.wire;
